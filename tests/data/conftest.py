"""The command line, called inside of the test's own folder."""

import sys

import pytest

from zoo.cli.app import main


@pytest.fixture
def zoo(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
            sys.exit(0)
        return left.value.code or 0, capsys.readouterr()

    return call
