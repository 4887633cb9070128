// A cell that begins with %%cuda is C++ to JupyterLab's editor: its colours, comments and indentation. So is a kernel in a string
// of Python, in colours alone.
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
    const { parseMixed } = await shared("@lezer/common");

    // Python whose strings in three quotes are C++ where they hold a kernel.
    function withKernels(python, cpp) {
      const wrap = parseMixed((node, input) => {
        const text = node.name === "String" ? input.read(node.from, node.to) : "";
        const quotes = text.indexOf('"""');
        if (quotes < 0 || !text.includes("__global__")) return null;
        return { parser: cpp.language.parser, overlay: [{ from: node.from + quotes + 3, to: node.to - 3 }] };
      });
      return python.language.configure({ wrap });
    }

    function coloured(cpp, mixed) {
      const language = new Compartment();
      function look(view) {
        const text = view.state.doc.toString();
        const wanted = text.startsWith("%%cuda") ? cpp : text.includes("__global__") ? mixed : [];
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
        const [cpp, python] = await Promise.all(["C++", "Python"].map((name) => languages.findByName(name).load()));
        const [cells, strings] = [cpp, withKernels(python, cpp)].map(Prec.highest);
        extensions.addExtension({
          name: "cuda-cells",
          factory: () => EditorExtensionRegistry.createImmutableExtension(coloured(cells, strings)),
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
