"""Prompts that memory has nothing to say to: assent, thanks, greetings, commands, emoji.

Pure, in several languages.  When in doubt a prompt is not trivial: a needless recall costs milliseconds,
a missed one an answer.
"""

from __future__ import annotations

import re
import unicodedata

_MAX_WORDS = 4
_COMMAND = re.compile(r"/[a-z][a-z0-9_-]*(\s.*)?", re.DOTALL)
# Runs of letters, with the marks that belong to them in Indic scripts.
_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff])+")

_PHRASES = """
a|ack|again|agreed|alright|and|awesome|bye|cheers|continue|cool|correct|done|excellent|exactly|fine
go|go ahead|go on|good|good morning|good night|goodbye|got it|great|hello|hey|hi|k|kk|lgtm|much|nah
next|nice|no|no problem|no thanks|nope|of course|oh|ok|okay|okey|perfect|please|proceed|right
so much|stop|sure|sure thing|thank you|thanks|that works|thx|ty|understood|very|well done|wow|y|yeah
yep|yes|yes please|you re welcome|yup|alles klar|bitte|danke|danke schön|doch|genau|gut|guten morgen
guten tag|hallo|ja|ja bitte|jawohl|klar|nein|nein danke|passt|sehr|super|tschüss|verstanden
vielen dank|weiter|gerne|bien|bien sûr|bonjour|d accord|merci|merci beaucoup|non|non merci|oui
parfait|s il te plaît|s il vous plaît|salut|très bien|au revoir|beaucoup|adiós|bueno|claro
de acuerdo|gracias|hola|muchas gracias|perfecto|por favor|sí|si|vale|listo|sigue|dale|certo|ciao
grazie|grazie mille|perfetto|per favore|prego|va bene|buongiorno|d accordo|bene|obrigada|obrigado
muito obrigado|oi|olá|perfeito|sim|não|tá bom|tudo bem|beleza|bedankt|dank je|dank je wel|goed|hoi
nee|prima|top|graag|cześć|dobrze|dzięki|dziękuję|nie|tak|да|нет|спасибо|хорошо|ладно|понятно|понял
поняла|пожалуйста|привет|отлично|окей|ок|ага|дальше|большое|evet|hayır|merhaba|tamam|teşekkürler
teşekkür ederim|sağol|نعم|لا|شكرا|حسنا|تمام|مرحبا|हाँ|हां|नहीं|धन्यवाद|ठीक|ठीक है|नमस्ते|शुक्रिया|好
好的|好啊|好吧|好了|行|可以|可以的|是|是的|对|对的|對|對的|不|不是|不用|不用了|不要|嗯|嗯嗯|哦|噢
谢谢|谢谢你|谢谢您|多谢|謝謝|謝謝你|没问题|沒問題|明白|明白了|知道了|知道|了解|收到|继续|繼續|你好
您好|再见|再見|没事|太好了|很好|真棒|请|請|辛苦了|はい|いいえ|いえ|うん|ううん|ええ|ありがとう
ありがとうございます|ありがとうございました|どうも|どうもありがとう|了解です|了解しました|りょうかい
わかりました|分かりました|わかった|分かった|承知しました|お願いします|おねがいします|よろしく
よろしくお願いします|こんにちは|おはよう|おはようございます|こんばんは|さようなら|いいね|いいですね
大丈夫|大丈夫です|続けて|オーケー|オッケー|すごい|なるほど|そうです|そうですね|네|넵|예|응|아니
아니요|아니오|고마워|고마워요|고맙습니다|감사|감사합니다|감사해요|좋아|좋아요|알겠습니다|알겠어요
알았어|오케이|괜찮아요|안녕|안녕하세요|계속|맞아요|그래|그래요|ㅇㅇ|ㅇㅋ|ㅋㅋ|ㅎㅎ
"""


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


_TRIVIAL = frozenset(
    " ".join(_WORD.findall(_folded(phrase)))
    for line in _PHRASES.splitlines()
    for phrase in line.split("|")
    if phrase
)


def is_trivial(prompt: str) -> bool:
    """Whether a prompt needs no recall: a slash command, nothing but such phrases, or no letter."""
    text = _folded(prompt[:400]).strip()
    if _COMMAND.fullmatch(text):
        return True
    if len(prompt) > 400:
        return False
    words = _WORD.findall(text)
    if not words:
        # Emoji, punctuation; but digits may name something.
        return not any(character.isdigit() for character in text) or len(text) <= 2
    return len(words) <= _MAX_WORDS and _is_made_of_phrases(words)


def _is_made_of_phrases(words: list[str]) -> bool:
    """Whether the words fall apart into phrases, as "ok, thank you" does."""
    if not words:
        return True
    return any(
        " ".join(words[:length]) in _TRIVIAL and _is_made_of_phrases(words[length:])
        for length in range(len(words), 0, -1)
    )
