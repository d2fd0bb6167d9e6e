"""Multi30k is downloaded once, whole or not at all; else it is said what to put where."""

import http.server
import threading

import pytest
from sentences import write_pairs

from zoo.data.load import load_data, named_pairs
from zoo.errors import ZooError
from zoo.system import http as downloading

PUBLISHED = {"train": "train", "val": "val", "test": "test_2016_flickr"}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A server with the files as they are published: its folder, and what it was asked for."""
    source, place, asked = write_pairs(tmp_path / "made"), tmp_path / "web", []
    place.mkdir()
    for path in source.iterdir():
        part, language, _ = path.name.split(".")
        path.rename(place / f"{PUBLISHED[part]}.{language}.gz")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=place)

        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("ZOO_OFFLINE")
    monkeypatch.setattr(downloading, "RETRIES", 0)
    monkeypatch.setattr(named_pairs, "PAIRS", f"http://127.0.0.1:{server.server_port}")
    yield place, asked
    server.shutdown()
    server.server_close()


def test_it_is_downloaded_once(published, tmp_path):
    _, asked = published
    data = load_data({"name": "multi30k-en-de", "vocabulary": 280})
    assert {key: int(mask.sum()) for key, mask in data.masks.items()} == {
        "train": 120, "val": 20, "test": 20,
    }  # fmt: skip
    assert len(asked) == 6 and "/test_2016_flickr.en.gz" in asked
    load_data({"name": "multi30k-en-de", "source": "de", "target": "en"})
    assert len(asked) == 6
    names = {each.name for each in (tmp_path / "data").iterdir()}
    assert names == {"multi30k-en-de", "cache"}


def test_half_of_it_is_not_kept(published, tmp_path):
    place, _ = published
    (place / "val.de.gz").unlink()
    with pytest.raises(ZooError, match="404.*Put train.en.gz, train.de.gz.*ZOO_DATA"):
        load_data("multi30k-en-de")
    assert list((tmp_path / "data").iterdir()) == []


def test_without_a_network_it_is_said_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    with pytest.raises(ZooError) as caught:
        load_data("multi30k-en-de")
    for words in ("ZOO_OFFLINE", "train.en.gz", "test_2016_flickr.en.gz", named_pairs.PAIRS):
        assert words in str(caught.value)
    assert str(tmp_path / "data" / "multi30k-en-de") in str(caught.value)
