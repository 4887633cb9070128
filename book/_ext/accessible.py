"""Folds with the names that they show, and wide content that scrolls from the keyboard."""


def name_folds(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = context["body"].replace(' aria-label="Toggle hidden content"', "")


def setup(app):
    app.connect("html-page-context", name_folds)
    app.add_js_file("scrolling.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
