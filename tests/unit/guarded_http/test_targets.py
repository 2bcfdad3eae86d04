"""URLs: what others would read differently is refused before anybody is asked."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.common.guarded_http import Origin, UrlRefused
from herma.common.guarded_http.target import parse_target


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://example.com", Origin("https", "example.com", 443), "/"),
        ("HTTPS://EXAMPLE.com:443/a?b=c#d", Origin("https", "example.com", 443), "/a?b=c"),
        ("http://example.com:8080/%2e%2e/", Origin("http", "example.com", 8080), "/%2e%2e/"),
        ("https://xn--bcher-kva.example/", Origin("https", "xn--bcher-kva.example", 443), "/"),
        ("https://[2606:4700::1111]/", Origin("https", "2606:4700::1111", 443), "/"),
        ("https://example.com:/", Origin("https", "example.com", 443), "/"),
        ("https://1.1.1.1/", Origin("https", "1.1.1.1", 443), "/"),
        ("https://a_b.example/", Origin("https", "a_b.example", 443), "/"),
    ],
)
def test_a_url_is_taken_apart(url: str, origin: Origin, path: str) -> None:
    target = parse_target(url)
    assert (target.origin, target.path) == (origin, path)
    assert parse_target(target.url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "file:///etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "data:text/plain,hi",
        "unix:/var/run/docker.sock",
        "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
        "javascript:alert(1)",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:pass@example.com/",
        "https://example.com@127.0.0.1/",
        "https://example.com\\@127.0.0.1/",
        "https://127.0.0.1\\.example.com/",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://example.com\t/",
        "https://ex\u0430mple.com/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://127\u30020.0.1/",
        "https://example.com./",
        "https://.example.com/",
        "https://a..example.com/",
        "https://-a.example.com/",
        "https://%31%32%37.0.0.1/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://example.com:x/",
        "https://::1/",
        "https://[::1]x/",
        "https://[::1].example.com/",
        "https://x[::1]/",
        "https://[[::1]]/",
        "https://[127.0.0.1]/",
        "https://[::1]:8080:80/",
        "https://127.0.0.1:80@example.com/",
        "https://example.com#@127.0.0.1\\/",
        "https://example.com:+80/",
        "https://example.com: 80/",
        "https://example.com:\uff18\uff10/",
        "https:example.com",
        "https:/example.com",
        "https:\\\\example.com",
        "HTTP+UNIX://x/",
        "jar:https://example.com!/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://017700000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://0x/",
        "https://example.0x7f/",
        "https://example.1/",
        "https://[::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[::ffff:0x7f.0.0.1]/",
        "https://[v1.a]/",
        "https://[]/",
        "https://[::1/",
        "https://xn--/",
        "https://" + "a" * 64 + ".example/",
        "https://example.com/" + "a" * 9000,
    ],
)
def test_what_is_not_plain_is_refused(url: str) -> None:
    with pytest.raises(UrlRefused):
        parse_target(url)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "https://example.com/b"),
        ("b?c", "https://example.com/a/b?c"),
        ("//other.example/x", "https://other.example/x"),
        ("http://other.example", "http://other.example/"),
    ],
)
def test_a_redirect_is_read_from_where_it_came(location: str, url: str) -> None:
    assert parse_target("https://example.com/a/").joined(location).url == url


@pytest.mark.parametrize("location", ["file:///x", "//user@127.0.0.1/", "\\\\127.0.0.1", " /x"])
def test_a_redirect_elsewhere_is_refused(location: str) -> None:
    with pytest.raises(UrlRefused):
        parse_target("https://example.com/a").joined(location)


@given(st.ip_addresses(v=4))
def test_numbers_have_one_spelling(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    parts = str(address).split(".")
    spellings = {
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(hex(int(part)) for part in parts),
        ".".join(f"0{int(part):o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        str(address) + ".",
    } - {str(address)}
    for spelling in spellings:
        with pytest.raises(UrlRefused):
            parse_target(f"http://{spelling}/")
    assert parse_target(f"http://{address}/").address == address


@given(st.text(max_size=200))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://example.com/{text}"):
        try:
            target = parse_target(url)
        except UrlRefused:
            continue
        assert parse_target(target.url) == target
