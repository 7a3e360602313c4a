"""The look of the report, and the few lines of script that sort its tables."""

import base64
import hashlib

CSS = """
:root{color-scheme:light dark;--ink:#1d2733;--muted:#5b6875;--line:#d5dbe1;--paper:#fff;
--page:#f3f5f7;--good:#0b6e4f;--open:#8a5a00;--bad:#b3261e;--link:#0b57a4}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6eaee;--muted:#9aa7b4;--line:#37424e;
--paper:#1a2129;--page:#11161b;--good:#5fd3a6;--open:#e5b454;--bad:#ff8a80;--link:#8ab8f0;
--m0:#56b4e9;--m1:#f08c4a;--m2:#3ecf9e;--m3:#dd8fc4;--m4:#e0b73f;--m5:#9cd0f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.4rem 0}
.muted{color:var(--muted)}
small,.small{font-size:.85rem}
.card{background:var(--paper);border:1px solid var(--line);border-radius:10px;
padding:1rem 1.2rem;margin:.8rem 0;break-inside:avoid}
.answer{border-left:6px solid var(--open)}
.answer.decided{border-left-color:var(--good)}
.alert{border-left:6px solid var(--bad)}
.answer h2{margin:0 0 .3rem}
.answer ul{margin:.3rem 0;padding-left:1.2rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:.8rem}
figure{margin:0;background:var(--paper);border:1px solid var(--line);border-radius:10px;
padding:.8rem;break-inside:avoid}
figcaption{font-weight:600;margin-bottom:.3rem}
.chart{width:100%;height:auto;display:block}
.scroll{overflow-x:auto;background:var(--paper);border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.grid,.scroll{margin:.8rem 0}
th,td{padding:.45rem .55rem;text-align:left;border-bottom:1px solid var(--line);
vertical-align:top}
tr:last-child td{border-bottom:0}
th{font-size:.82rem;color:var(--muted);font-weight:600;white-space:nowrap}
th.n,td.n{text-align:right;white-space:nowrap}
td .small{display:block;color:var(--muted)}
td.said{min-width:11rem}
td.time{white-space:nowrap}
td.name{font-weight:600;overflow-wrap:anywhere;min-width:8rem}
th button{all:unset;cursor:pointer}
th button:hover,th button:focus-visible{color:var(--ink);text-decoration:underline}
th[aria-sort=ascending] button::after{content:" \\25B2"}
th[aria-sort=descending] button::after{content:" \\25BC"}
.tag{display:inline-block;border:1px solid currentColor;border-radius:999px;padding:0 .5rem;
font-size:.78rem;color:var(--muted);font-weight:500}
.tag.good{color:var(--good)}
.tag.bad{color:var(--bad)}
code{font:.85em ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{margin:.8rem 0}
summary{cursor:pointer;color:var(--link)}
a{color:var(--link)}
td a{display:inline-block;min-width:11rem;overflow-wrap:anywhere}
.session{scroll-margin-top:1rem}
.session h3{margin:0 0 .3rem;overflow-wrap:anywhere}
.session:target{border-color:var(--link);box-shadow:0 0 0 1px var(--link)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.4rem 1rem;
margin:.6rem 0}
.facts div{min-width:0;overflow-wrap:anywhere}
dt{font-size:.82rem;color:var(--muted)}
dd{margin:0}
@media (max-width:40rem){main{padding:1rem .7rem 3rem}h1{font-size:1.35rem}
th,td{padding:.4rem .5rem}.card{padding:.8rem}}
@media print{@page{margin:12mm}
:root{color-scheme:light;font-size:9.5pt;--ink:#111;--muted:#444;--line:#bbb;--page:#fff}
body{background:#fff;font-size:1rem}main{max-width:none;padding:0}
.scroll{overflow:visible;border:0}table{font-size:.84rem}td .small{font-size:.74rem}
th,td{padding:.25rem .3rem}th{font-size:.74rem;white-space:normal;vertical-align:bottom}
td.said,td.name{min-width:0}tr,li{break-inside:avoid}h2,h3{break-after:avoid}
.grid{grid-template-columns:1fr 1fr}.tag{padding:0 .3rem;font-size:.7rem}
h2{margin-top:1.2rem}.card{padding:.6rem .9rem;margin:.5rem 0}code,li{line-height:1.35}
.session{font-size:.84rem}.facts{gap:.15rem .8rem;margin:.2rem 0;
grid-template-columns:repeat(5,1fr)}.session p{margin:.15rem 0}.back{display:none}a{color:inherit}
td a{min-width:0}.session:target{border-color:var(--line);box-shadow:none}
th button{display:contents}th button::after{content:""!important}}
"""

SCRIPT = """
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table");
    const down = head.getAttribute("aria-sort") !== "descending";
    const place = head.cellIndex, body = table.tBodies[0];
    for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
    const order = (a, b) => {
      const x = value(a), y = value(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      const numbers = !isNaN(x) && !isNaN(y);
      return (numbers ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
  });
}
"""


def content_security_policy() -> str:
    """What the page may do: show its own styles, run this very script, and load nothing at all."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
