"""The map in Debian's Chromium: its script runs under the page's own policy, and says what is pointed at."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape

import pytest

from laplacianshot.reports.labeling import label_page
from tests.reports.labeling.made_up import HOSTILE, of_texts, result

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


def after_loading(tmp_path, page, ready=r'id="map-canvas"[^>]*width="[1-9]'):
    """The page as text once its scripts have run. On a busy machine the browser may need to be asked for longer."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    for budget in (3_000, 15_000, 60_000):
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        command += ["--window-size=1200,900", f"--virtual-time-budget={budget}", "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        shown = done.stdout.decode("utf-8")
        if re.search(ready, shown):
            break
    return shown


def with_actions(page, script):
    """A copy of the page in which a script of the test may act as a user does."""
    acts = f"<script>addEventListener('load', () => setTimeout(() => {{ {script} }}, 200))</script></body>"
    return POLICY.sub("", page).replace("</body>", acts)


def test_the_script_runs_under_the_policy_of_the_page(tmp_path):
    shown = after_loading(tmp_path, label_page(result(60, HOSTILE[:3])))
    width, height = re.search(r'<canvas id="map-canvas"[^>]*width="(\d+)" height="(\d+)"', shown).groups()
    assert int(width) > 600
    assert int(height) > 300


def test_arrow_keys_go_from_item_to_item_and_say_what_is_there(tmp_path):
    found = of_texts(tmp_path, 60, HOSTILE)
    keys = """
      const map = document.getElementById("map-canvas");
      const said = [];
      for (const key of ["+", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"]) {
        map.dispatchEvent(new KeyboardEvent("keydown", { key }));
        said.push(document.getElementById("map-said").textContent);
      }
      document.body.dataset.said = JSON.stringify(said);
    """
    shown = after_loading(tmp_path, with_actions(label_page(found), keys), "data-said=")
    said = re.findall(r"sentence \d+ of this source: [^\"]+", unescape(re.search(r'data-said="([^"]*)"', shown)[1]))
    assert len(said) >= 3
    assert len(set(said)) >= 2
    assert any(name in said[0] for name in (*found.classes, "rejected"))


def test_a_class_is_shown_alone_and_pointing_shows_an_item(tmp_path):
    acts = """
      document.querySelector('#map-view [data-class="1"]').click();
      const map = document.getElementById("map-canvas");
      const box = map.getBoundingClientRect();
      const tip = document.getElementById("map-tip");
      let seen = new Set();
      for (let x = 4; x < box.width; x += 8)
        for (let y = 4; y < box.height; y += 8) {
          const [clientX, clientY] = [box.left + x, box.top + y];
          map.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerId: 1 }));
          if (!tip.hidden) seen.add(tip.querySelector(".map-text").textContent);
        }
      document.body.dataset.seen = [...seen].join(" ");
    """
    found = result()
    shown = after_loading(tmp_path, with_actions(label_page(found), acts))
    seen = {int(item) for item in re.search(r'data-seen="([^"]*)"', shown)[1].split()}
    assert seen == {item for item in range(60) if found.codes[item] == 1}
    pressed = re.findall(r'data-class="(-?\d+)" aria-pressed="true"', shown)
    assert pressed == ["1"]
