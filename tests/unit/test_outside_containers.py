"""What docker says where a client outside Cannot start, in one line."""

import pytest

from esipp.probing.docker import why


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        (
            "Unable to find image 'a/b:c' locally\ndocker: Error response from daemon: no such host.\n\n"
            "Run 'docker run --help' for more information\n",
            "no such host.",
        ),
        (
            "docker: Error response from daemon: network kind not found\nSee 'docker run --help'.\n",
            "network kind not found.",
        ),
        ("", "no reason given."),
    ],
)
def test_the_last_line_tells(complaint: str, expected: str) -> None:
    assert why(complaint) == expected
