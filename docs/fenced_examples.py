"""Shows the `>>>` examples of docstrings as code: an extension of Griffe, see mkdocs.yml."""

import re

import griffe

# An example: lines from one that begins with ">>>" to the next blank one.
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts each example in a fenced block, for Markdown would take it for quotations."""

    def on_object(self, *, obj, **others):
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```python\n\g<0>\n```", obj.docstring.value)
