"""Text to terms: folded words and pairs of characters; a question finds what contains it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from herma.memory.domain.stop_words import stop_terms
from herma.memory.domain.words import MAX_TERM, MAX_TERMS, document_terms, fold, query_terms


def test_accents_case_and_width_do_not_count() -> None:
    assert query_terms("Café NAÏVE ＡＢＣ Straße Łódź") == ["cafe", "naive", "abc", "strasse", "lodz"]
    assert fold("e\u0301") == fold("é") == "e"
    assert query_terms("İstanbul") == query_terms("ISTANBUL") == ["istanbul"]


def test_kana_and_hangul_stay_whole() -> None:
    assert query_terms("が") == ["が"] != query_terms("か")
    assert query_terms("ｶﾞ") == ["ガ"]
    assert query_terms("서울에") == ["서울", "울에"]


def test_scripts_without_spaces_become_pairs() -> None:
    assert query_terms("北京大学") == ["北京", "京大", "大学"]
    assert query_terms("東京タワー2024年") == ["東京", "京タ", "タワ", "ワー", "2024", "年"]
    assert "北" in document_terms("我在北京")
    assert "北京" in document_terms("我在北京")


def test_marks_inside_words_do_not_cut_them() -> None:
    assert query_terms("हिन्दी में") == ["हिन्दी", "में"]


def test_what_is_no_word_is_no_term() -> None:
    assert query_terms("?!… 🙂 & | ! ( ) : * <-> ' \\ \0 \u200b _ -") == []


def test_terms_are_bounded() -> None:
    assert len(query_terms(" ".join(f"w{n}" for n in range(5_000)))) == MAX_TERMS
    assert query_terms("x" * 1_000) == ["x" * MAX_TERM]


def test_telling_words_of_other_languages_are_no_stop_words() -> None:
    stop = stop_terms()
    assert {"the", "und", "です", "什么"} <= stop
    assert not {"son", "die", "dog", "北京", "東京", "서울"} & stop


@given(st.text(max_size=200), st.text(max_size=50), st.text(max_size=200))
def test_a_question_finds_the_text_that_contains_it(before: str, question: str, after: str) -> None:
    whole = set(document_terms(f"{before} {question} {after}"))
    assert set(query_terms(question)) <= whole or len(whole) == MAX_TERMS


@given(st.text(max_size=300))
def test_no_text_makes_a_term_that_cannot_be_stored(text: str) -> None:
    for term in document_terms(text):
        assert 0 < len(term) <= MAX_TERM
        assert "\0" not in term
        assert ":" not in term
        assert not term.isspace()
