"""Formulas as SVG at build time: no script, no font and no network where the pages are read."""

import html
import re

import ziafont
import ziamath
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

SIZE = 17
"""Of the formulas' letters, in pixels."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
ALONE = re.compile(r'<p>(<span class="arithmatex">[^<]*</span>)</p>')
ziafont.config.precision = 2


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draws what arithmatex has marked; a formula that is alone in its paragraph is displayed."""
    content = ALONE.sub(lambda found: found[1].replace("span", "div"), content)
    return FORMULA.sub(lambda found: draw(html.unescape(found[2]), found[1] == "div"), content)


def draw(latex: str, display: bool) -> str:
    """One formula, in the colour of the text around it and with its source as the description."""
    # The digit in bold: ziamath draws \mathbf{1} upright and thin.
    source = latex.strip().replace(r"\mathbf{1}", "𝟏")
    formula = ziamath.Latex(source, size=SIZE, color="currentColor", inline=not display)
    style = "" if display else f"vertical-align:{formula.getyofst():.2f}px"
    mark = f'<svg role="img" aria-label="{html.escape(latex.strip())}" style="{style}" '
    tag = "div" if display else "span"
    return f'<{tag} class="formula">{formula.svg().replace("<svg ", mark, 1)}</{tag}>'
