"""The report in a real browser without a head: its script runs, finds its numbers, and asks for nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from kvzip.pictures.figures import Pictures
from kvzip.pictures.html import report

from .made import HOSTILE, stats

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no headless browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# Moves the pointer over the middle of each chart and sorts a table; what came of it stands in the body's attributes.
PROBE = """
window.requested = performance.getEntriesByType("resource").map((entry) => entry.name);
const said = [];
for (const svg of document.querySelectorAll("svg[data-shape]")) {
  const box = svg.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
  svg.dispatchEvent(new PointerEvent("pointermove", at));
  said.push(document.getElementById("tip").textContent.replaceAll("\\n", " "));
}
const head = document.querySelector("table.sortable th:nth-child(3)");
head.click();
head.click();
const first = document.querySelector("table.sortable tbody tr").textContent;
document.body.dataset.said = said.join("|");
document.body.dataset.first = first;
document.body.dataset.requested = requested.join(" ");
document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;
"""


def load(path, folder, width=1200):
    """The page's elements once its scripts have run, and what the browser had to say."""
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [BROWSER, *FLAGS, profile, f"--window-size={width},1600", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run(
        [*command, path.as_uri()], capture_output=True, encoding="utf-8", timeout=120, check=True, errors="replace"
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line or "Refused" in line]


def probed(found, folder, width=1200) -> dict[str, str]:
    """What the probe found; the page's policy must let the probe run, so its digest is left out for that."""
    page = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report([Pictures.of(own) for own in found])
    )
    path = folder / "probed.html"
    path.write_text(page.replace("</body>", f"<script>{PROBE}</script></body>"), "utf-8")
    elements, console = load(path, folder, width)
    assert console == []
    return dict(re.findall(r'data-(said|first|requested|wide)="([^"]*)"', re.search(r"<body[^>]*>", elements)[0]))


def test_the_policy_lets_its_own_script_and_style_run_and_nothing_is_wrong(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report([Pictures.of(stats(name=HOSTILE))]), "utf-8")
    elements, console = load(path, tmp_path)
    assert console == []
    assert 'id="tip"' in elements  # which the script adds
    assert 'aria-label="Bits along the tokens"' in elements
    assert elements.count("<figure") == 5


def test_the_policy_stops_any_other_script(tmp_path):
    path = tmp_path / "report.html"
    page = report([Pictures.of(stats())])
    path.write_text(page.replace("</main>", "<script>document.body.id = 'owned'</script></main>"), "utf-8")
    elements, console = load(path, tmp_path)
    assert "<body>" in elements
    assert console


def test_numbers_under_the_pointer_are_those_of_the_statistics(tmp_path):
    found = probed([stats(layers=3, heads=1)], tmp_path)
    said = found["said"].split("|")
    assert said[0] == "layer 1, head 0 7.000 bits/value"
    assert said[1] == "layer 1, head 0 7.500 bits/value"
    assert said[-1] == "token 8–9 keys 6.750 values 7.250"
    assert found["first"].startswith("2values8.5")  # layers by bits, the most first
    assert found["requested"] == ""


@pytest.mark.parametrize("width", [500, 800, 1400])
def test_no_width_makes_it_scroll_sideways(tmp_path, width):
    assert probed([stats(layers=12, heads=8)], tmp_path, width)["wide"] == "false"
