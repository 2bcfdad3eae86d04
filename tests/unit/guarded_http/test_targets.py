"""URLs: what others would read differently is refused before anybody is asked."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.common.guarded_http import AddressPolicy, Origin, UrlRefused
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
    "url", ["https://u@example.com/", "https://u:p@example.com/", "https://:@127.0.0.1/"]
)
def test_a_user_is_refused_by_name(url: str) -> None:
    with pytest.raises(UrlRefused, match="must not name a user"):
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


INTERNAL = [
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
]


def _in_ipv4(address: ipaddress.IPv4Address, draw: st.DrawFn) -> str:
    """As `inet_aton(3)` takes it: one to four numbers, each decimal, octal or hexadecimal."""
    number, parts = int(address), draw(st.integers(1, 4))
    numbers = [(number >> (24 - 8 * at)) & 0xFF for at in range(parts - 1)]
    numbers.append(number & ((1 << (8 * (5 - parts))) - 1))
    forms = st.sampled_from(("{:d}", "{:#x}", "{:#X}", "0{:o}", "000{:o}", "{:#010x}"))
    return ".".join(draw(forms).format(one) for one in numbers)


@st.composite
def internal_hosts(draw: st.DrawFn) -> str:
    """An internal address of IPv4 in any spelling, also inside of IPv6."""
    address = draw(st.sampled_from(INTERNAL).flatmap(lambda network: st.ip_addresses(network=network)))
    number = int(address)
    wrapped = (
        number,
        (0xFFFF << 32) | number,
        (0xFFFF << 48) | number,
        (0x64FF9B << 96) | number,
        (0x2002 << 112) | (number << 80),
        (0x20010000 << 96) | (number ^ 0xFFFFFFFF),
        (0xFE80 << 112) | (0x5EFE << 32) | number,
    )
    v6 = [ipaddress.IPv6Address(one) for one in wrapped]
    dotted = [f"::ffff:{address}", f"::{address}", f"64:ff9b::{address}", f"0:0:0:0:0:ffff:{address}"]
    text = draw(st.sampled_from([*(str(one) for one in v6), *(one.exploded for one in v6), *dotted]))
    host = draw(
        st.sampled_from([f"[{text}]", f"[{text.upper()}]", _in_ipv4(address, draw), str(address)])
    )
    return host + draw(st.sampled_from(["", "", "", "."]))


@given(
    internal_hosts(),
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["", ":80", ":8080", ":"]),
)
def test_an_internal_address_is_refused_in_any_spelling(host: str, scheme: str, port: str) -> None:
    try:
        target = parse_target(f"{scheme}://{host}{port}/")
    except UrlRefused:
        return
    # Never taken for a name, which others might take for an address.
    assert target.address is not None
    assert not AddressPolicy().allows(target.address)


@given(st.text(max_size=200))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://example.com/{text}"):
        try:
            target = parse_target(url)
        except UrlRefused:
            continue
        assert parse_target(target.url) == target
