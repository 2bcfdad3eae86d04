"""Words that say nothing by themselves: no fact is recalled for having only these in common.

Words that mean something in another of these languages ("son", "die") are left out.
A scope with many facts needs no such list, since rarity tells; one with few facts does.
"""

from __future__ import annotations

from herma.memory.domain.words import fold

_WORDS = """
a about again all also am an and any are as at be because been before but by can could did do does
doing done for from get give go had has have he her here hers him his how i if in into is it its
just know let like make may me might more most my no not now of on one only or our ours out over
please say shall she should so some such tell than thank thanks that the their theirs them then
there these they this those to too up us very want was we were what when where which who whom whose
why will with would yes you your yours s t d ll m re ve don didn isn doesn aber alle als auch auf
aus bei bist bitte da danke dann das dass dein dem den der des dich dies diese dir doch du ein eine
einem einen einer er es euch für hab habe haben hatte ich ihr im ist ja kann kein keine mein meine
mich mir mit nach nein nicht noch nur ob oder schon sehr sein sich sie sind um und uns von vor weil
wenn wer werden wie wieder wir wird wo zu zum zur über au aux avec ce ces cet cette dans de elle en
est et il ils je la le les leur lui mais mes moi ne nos notre nous ou où par pas pour qu que quel
quelle qui sa se ses sont sur ta te tes toi tu un une vos votre vous suis merci oui non al como con
cual cuál cuando del donde el ella ellos era esta está este esto ha hay las lo los mi mis muy o para
pero por porque qué si sobre su sus tus una y ya yo gracias alla che chi ci cosa dei della di e è
gli ho io mio mia nel nella perché più quale quando questo sei sono suo sua ti tuo tua grazie ao aos
até com dos é ela ele em essa esse eu foi isso já mas meu minha na não nas os pela pelo qual quem
sem ser seu são tem uma você het een ik dat zijn niet op aan voor maar hem zou wat mijn ook bij w z
nie że jest się jak po od dla czy ty moj mój moja и в во не что он на я с со как а то все она так
его но да ты к у же вы за бы по только ее мне было вот от меня еще нет о из ему теперь когда даже ну
ли если мой моя мои bir bu için ile benim sen ben
"""

# The same for pairs of characters: endings, particles, question words.
_PAIRS = """
です ます した して する った って たい ない なに から こと もの まし てい いる ある この その あの
どの くだ ださ さい ので のは のが のを すか ませ せん では には とは れは たち よう うか たか でし
しょ ょう ちゃ いま いて たの にし はど はな はい 私の 私は 僕の 僕は 何で 何を 何が の名 什么 我们
你们 他们 这个 那个 一个 可以 怎么 为什 没有 是的 的是 就是 因为 所以 但是 如果 知道 我的 你的 请问
告诉 诉我 么样 是什 是我 我是 你是 在我 吗我 什麼 我們 你們 這個 那個 怎麼 沒有 告訴 訴我 請問 的什
입니 니다 습니 니까 합니 어요 에요 해요 은요 무엇 그리 하고 있습 나는 나의 내가 저는 제가 당신
"""


def stop_terms() -> frozenset[str]:
    """The terms of all these words."""
    return frozenset(fold(word) for word in (_WORDS + _PAIRS).split())
