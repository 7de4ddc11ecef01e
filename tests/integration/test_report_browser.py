"""Reports in a real headless browser: they render, and names from logs stay text."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_engine.cases import CaseStore, NightOutcome, apply_night
from data_engine.config import ReportConfig
from data_engine.mine import load_cases
from data_engine.report import render_report
from data_engine.trend import render_trend
from tests.night_builders import finished_night, mined_night, summary

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


def shown(browser: str, page: Path, folder: Path) -> tuple[str, np.ndarray]:
    """The page's DOM after its scripts had time to run, and a picture of it."""
    base = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000"]  # fmt: skip
    dom = subprocess.run([*base, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=240)
    assert dom.returncode == 0, dom.stderr[-2000:]
    picture = folder / "page.png"
    subprocess.run(
        [*base, f"--screenshot={picture}", "--window-size=1200,1600", page.as_uri()],
        capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    image = cv2.imread(str(picture))
    assert image is not None
    return dom.stdout, image


def test_a_nights_report(browser: str, tmp_path: Path) -> None:
    folder, logs = tmp_path / "night", tmp_path / "logs"
    found = mined_night(folder, logs)
    facts = summary(found, headline=EVIL, warnings=[EVIL], reasons={EVIL: EVIL})
    page = render_report(folder, facts, ReportConfig(), folder / "report.html", [logs])
    dom, image = shown(browser, page, tmp_path)
    assert "<title>nightdrive 2026-11-30: refused</title>" in dom
    assert "<script" not in dom
    assert "onerror=" not in dom.replace("onerror=\"document.title='owned'\"&gt;", "")
    assert dom.count('<article class="case">') >= 2
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 500  # pictures and charts are there


def test_the_last_nights(browser: str, tmp_path: Path) -> None:
    folders = [
        finished_night(tmp_path, "2026-11-29", headline=EVIL),
        finished_night(tmp_path, "2026-11-30", decision="promoted", reasons={}),
    ]
    cases = [replace(case, route=EVIL) for case in load_cases(folders[0] / "mine" / "cases.json")]
    store = apply_night(CaseStore({}), NightOutcome("2026-11-29", cases), 1.5)
    rows = render_trend(folders, store, tmp_path / "report.html")
    assert [row["decision"] for row in rows] == ["refused", "promoted"]
    dom, image = shown(browser, tmp_path / "report.html", tmp_path)
    assert "<title>nightdrive: the last 2 nights</title>" in dom
    assert dom.count('<tr class="night">') == 2
    assert "<script" not in dom
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 200
