// A cell that begins with %%cuda is C++ to JupyterLab's editor: its colours, comments and indentation.
//
// JupyterLab loads this file as it is; no build made it. Such a file is a container of webpack's module federation: JupyterLab
// calls `init` with the modules that it shares, by name and version, and `get` for the plugin.

(() => {
  let modules;
  const shared = async (name) => (await Object.values(modules[name])[0].get())();

  async function plugin() {
    const { IEditorExtensionRegistry, IEditorLanguageRegistry, EditorExtensionRegistry } = await shared("@jupyterlab/codemirror");
    const { Compartment, Prec } = await shared("@codemirror/state");
    const { ViewPlugin } = await shared("@codemirror/view");

    function coloured(cpp) {
      const language = new Compartment();
      function look(view) {
        const wanted = view.state.doc.line(1).text.startsWith("%%cuda") ? cpp : [];
        if (language.get(view.state) !== wanted) view.dispatch({ effects: language.reconfigure(wanted) });
      }
      // A view may not be changed while it updates.
      const follow = ViewPlugin.define((view) => {
        setTimeout(() => look(view));
        return { update: (change) => change.docChanged && setTimeout(() => look(change.view)) };
      });
      return [language.of([]), follow];
    }

    return {
      id: "cuda-cells:plugin",
      autoStart: true,
      requires: [IEditorExtensionRegistry, IEditorLanguageRegistry],
      activate: async (app, extensions, languages) => {
        const cpp = Prec.highest(await languages.findByName("C++").load());
        extensions.addExtension({
          name: "cuda-cells",
          factory: () => EditorExtensionRegistry.createImmutableExtension(coloured(cpp)),
        });
      },
    };
  }

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB["cuda-cells"] = {
    init: (scope) => void (modules = scope),
    get: async () => {
      const found = await plugin();
      return () => ({ __esModule: true, default: found });
    },
  };
})();
