// Formulas of a page are set by KaTeX, which comes with the site.
for (const each of document.querySelectorAll(".arithmatex"))
  katex.render(each.textContent.slice(2, -2), each, { displayMode: each.tagName === "DIV" });
