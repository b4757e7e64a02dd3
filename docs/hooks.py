"""Names that no page has; formulas as SVG, without script, font or network; options that do not break."""

import html
import re
from pathlib import Path

import ziafont
import ziamath
from captions import with_captions
from from_notebooks import notebook_pages
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from sections import with_index, with_new_quantities

SIZE, TEXT = 17.0, 16.0
"""Of a formula's letters beside the text's."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
SIGN = re.compile(r"([=<>(,&]|\\(?:le|ge|approx|sim|to|in)\b|\\\{)(\s*)-")
"""A minus that is no difference, after a relation, a bracket or a comma."""
ALONE = re.compile(r'<p>(<span class="arithmatex">[^<]*</span>)</p>')
NOTEBOOK = re.compile(r"\((notebooks/[\w-]+)\.ipynb")
SHORT = re.compile(r"<code>(?=[^<]{1,20}</code>)")
CELL = re.compile(r"<td[^>]*>(?:(?!<code|</td>).)*</td>", re.DOTALL)
PICTURED = """\
The pictures show a healthy run and an unhealthy one, [described here](../quantities.md#how-a-section-is-read).

"""
ziafont.config.precision = 2


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the notebooks' pages."""
    for page in notebook_pages(config):
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adds the index of all names, and to the page of a family what is in `gnomon.measure` and on no page yet.

    A family's page also says where the runs in its pictures are described, before its first quantity.

    An experiment's figures have their captions. Links to notebooks, which are files of the repository, lead to their
    pages.
    """
    markdown = NOTEBOOK.sub(r"(\1.md", markdown)
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == "quantities":
        if "{ .quantity }" in markdown:
            markdown = markdown.replace("::: ", PICTURED + "::: ", 1)
        return with_new_quantities(markdown, name)
    if folder == "experiments":
        return with_captions(markdown, Path(config.docs_dir) / folder)
    return with_index(markdown) if (folder, name) == ("", "quantities") else markdown


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draws what arithmatex has marked, a formula alone in its paragraph displayed; short code stays on one line."""
    content = SHORT.sub('<code class="short">', content)
    content = CELL.sub(lambda found: unbroken(found[0]), content)
    content = ALONE.sub(lambda found: found[1].replace("span", "div"), content)
    return FORMULA.sub(lambda found: draw(html.unescape(found[2]), found[1] == "div"), content)


def unbroken(cell: str) -> str:
    """A cell whose numbers no line break parts, as in 1e-12 and 50 %."""
    return re.sub(r"(\de)-(\d)", "\\1\u2011\\2", re.sub(r"(\d) %", "\\1\u00a0%", cell))


def draw(latex: str, display: bool) -> str:
    """One formula, sized and coloured as the text around it, with its source as the description."""
    # ziamath draws the digit of \mathbf{1} thin, and stretches \lVert (which tables need, as | parts their cells).
    source = latex.strip().replace(r"\mathbf{1}", "𝟏").replace(r"\lVert", r"\|").replace(r"\rVert", r"\|")
    source = source.replace(r"\bmod", r"\;\mathrm{mod}\;")  # drawn without room around it
    source = SIGN.sub(r"\1\2{-}", source)
    if "\\" in convert(source):
        raise PluginError(f"docs/hooks.py: expected LaTeX that latex2mathml knows, got {latex!r}. Write it otherwise.")
    formula = ziamath.Latex(source, size=SIZE, color="currentColor", inline=not display)
    svg = re.sub(r'(width|height)="([\d.]+)"', lambda s: f'{s[1]}="{float(s[2]) / TEXT:.3f}em"', formula.svg(), count=2)
    style = "" if display else f"vertical-align:{formula.getyofst() / TEXT:.3f}em"
    mark = f'<svg role="img" aria-label="{html.escape(latex.strip())}" style="{style}" '
    tag = "div" if display else "span"
    return f'<{tag} class="formula">{svg.replace("<svg ", mark, 1)}</{tag}>'
