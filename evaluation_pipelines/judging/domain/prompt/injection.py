# ruff: noqa: RUF001 - words of languages with other alphabets
"""Signs that a text of a session addresses the judge or imitates a verdict.

A sign is no verdict: a session about prompts contains the same words.
"""

import base64
import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from evaluation_pipelines.judging.domain.prompt.characters import (
    LATIN_LOOK_ALIKES,
    CategoryFilter,
)

_SCORE_LINES = r"""
    ^[^\w\n]{0,20}(?:logical_flow|consistency|tool_relevance|synthesis_quality)[^\w\n]{0,6}\d{1,3}\b
    ^[^\w\n]{0,20}[a-z]{2,20}_[a-z_]{2,30}[^\w\n]{0,6}:[^\w\n]{0,6}\d{1,2}\s?/\s?(?:10|20|25|30|40|50|100)\b
    ^[^\w\n]{0,20}failure[ _]tags[^\w\n]{0,4}:
    ^[^\w\n]{0,20}(?:(?:final|total|overall|my)\s){0,2}(?:score|grade|rating|verdict|total)[^\w\n]{0,4}(?::|=|is)[^\w\n]{0,6}\d{1,3}\b
    "(?:total|overall|final|judge)_score"\s{0,4}:\s{0,4}"?\d{1,3}\b
    "(?:score|rating|grade|verdict|total)"\s{0,4}:\s{0,4}"?(?:9\d|100)\b
    "(?:logical_flow|consistency|tool_relevance|synthesis_quality)"\s{0,4}:\s{0,4}\W?\d
"""

_ORDERS = r"""
    \b(?:ignore|disregard|forget|override|overrule|bypass)\W{1,3}(?:\w{1,20}\W{1,3}){0,4}?(?:previous|prior|above|earlier|preceding|all|any|your|the|every)\W{1,3}(?:\w{1,20}\W{1,3}){0,3}?(?:instructions?|rubrics?|criteria|prompts?|guidelines|system\smessage)\b
    \b(?:dear|attention|hello|hey|hi|note\sto|message\sto|memo\sto|instructions?\sfor|instructions?\sto)\W{1,3}(?:the\W{1,3})?(?:\w{1,12}\W{1,3})?(?:judge|grader|evaluator|assessor|scorer|reviewer)s?\b
    \byou\sare\s(?:now\s)?(?:the\s|a\s|an\s)?(?:\w{1,20}\s){0,2}?(?:judge|grader|evaluator|scorer)\b
    \bas\s(?:the|an?|your)\s(?:\w{1,20}\s){0,2}?(?:judge|grader|evaluator)\b
    \b(?:judge|grader|evaluator)s?\W{1,3}(?:\w{1,20}\W{1,3}){0,3}?(?:must|should|shall|please)\b
    \b(?:award|assign|give|grant|output|return|write|answer|respond|reply|print|rate|score)\b\W{1,3}(?:\w{1,20}\W{1,3}){0,7}?(?:full\s(?:marks|points)|maximum\s(?:score|points|marks)|perfect\s(?:score|marks)|(?:highest|top|best)\s(?:possible\s)?(?:score|marks|rating)|100\spoints|25/25|100/100|9\d/100|score\sof\s(?:9\d|100))
    \b(?:new|updated|revised|real|actual|true)\s(?:rubric|scoring\s(?:rules|criteria)|grading\s(?:rules|criteria)|system\sprompt|system\smessage)\b
    ^[^\w\n]{0,20}(?:begin|end|start|close)(?:\sof)?(?:\sthe)?\s(?:session|transcript|conversation|material|evidence|untrusted\s\w{1,20}|judgement|rubric)\b[^\w\n]{0,20}\w{0,128}[^\w\n]{0,20}$
    <<<\s?(?:end\sof\s)?(?:material|session|transcript)
    \bsession_conversation\b|\boutput_schema\b|\balert_data\b
    \b(?:rated|scored|graded|marked)\s(?:it\s)?(?:low|lower|down|below)\b
    ^[^\w\n]{0,8}\[\d{1,3}:\d\d(?:\s\w{1,12})?\]\s(?:prompt|reply|tool|summary|compaction)\b
    \[redacted:[\w-]{1,30}[^\]\n]{0,10}\]
    \[\.{3}\s?\d{1,9}\s(?:characters|steps)\b
"""

_CHAT_FORMATS = r"""
    <[|\uff5c]\s?[a-z_]{2,30}\s?[|\uff5c]>
    \[\s?/?inst\s?\]|<\s?<\s?/?sys\s?>\s?>|<\s?(?:start|end)_of_turn\s?>
    <\s?/?(?:system|assistant|developer)(?:[-_\s](?:prompt|message|instructions?))?\s?>
"""


class _Language(NamedTuple):
    """Words of a language.

    Attributes:
        ignoring: Beginnings of verbs; suspicious near one of ``rules``.
        rules: Beginnings of what a judge must not ignore.
        full_marks: Suspicious alone.
    """

    ignoring: str
    rules: str
    full_marks: str


_LANGUAGES = {
    "German": _Language(
        "ignorier, vergiss, vergesst, missachte, übergeh, beachte nicht, lass",
        "anweisung, instruktion, bewertung, kriteri, vorgabe, rubrik, maßstab",
        "volle punkt, volle zahl, höchste punkt, höchste bewertung, höchste note, maximale punkt, "
        "maximale bewertung, bestnote, höchstnote, hundert punkte, an den gutachter, "
        "an den prüfer",
    ),
    "French": _Language(
        "ignore, oublie, néglige, fais abstraction, faites abstraction, ne tiens pas, ne tenez pas",
        "instruction, consigne, critère, barème, grille",
        "note maximale, score maximal, note parfaite, tous les points, meilleure note, "
        "à l'attention du juge, note au correcteur, cent points",
    ),
    "Spanish": _Language(
        "ignor, olvid, omit, no tengas en cuenta, pasa por alto, descart",
        "instruccion, criterio, rúbrica, indicacion, pauta",
        "puntuación máxima, máxima puntuación, calificación máxima, máxima calificación, "
        "nota máxima, nota perfecta, puntuación perfecta, todos los puntos, cien puntos, "
        "nota para el juez, estimado evaluador",
    ),
    "Portuguese": _Language(
        "ignor, esqueç, esquece, desconsider, não leve em conta",
        "instruç, critério, rubrica, orientaç, regras",
        "nota máxima, pontuação máxima, máxima pontuação, nota perfeita, todos os pontos, "
        "cem pontos, caro avaliador, nota ao avaliador",
    ),
    "Italian": _Language(
        "ignor, dimentic, non considerare, trascur",
        "istruzion, criteri, rubrica, indicazion",
        "punteggio massimo, massimo punteggio, voto massimo, massimo dei voti, pieni voti, "
        "punteggio pieno",
    ),
    "Polish": _Language(
        "zignoruj, ignoruj, pomiń, zapomnij, nie zważaj, odrzuć",
        "instrukcj, poleceni, kryteri, wytyczn, rubryk, zasad",
        "maksymalną liczbę punktów, maksymalna ocen, maksymalną ocen, najwyższą ocen, "
        "najwyższa ocen, pełną pul, sto punktów, 100 punktów, drogi sędzio, szanowny oceniający",
    ),
    "Russian": _Language(
        "игнорир, проигнорир, забуд, не учитыва, отбрось, пренебрег",
        "инструкц, критери, указан, рубрик, правил",
        "максимальный балл, максимальное количество баллов, максимальную оценк, "
        "максимальная оценк, высший балл, наивысш, сто баллов, 100 баллов, уважаемый судья",
    ),
    "Turkish": _Language(
        "yok say, görmezden gel, dikkate alma, unut",
        "talimat, kriter, ölçüt, yönerge",
        "tam puan, en yüksek puan, sayın hakem",
    ),
    "Chinese": _Language(
        "忽略, 无视, 無視, 忽視, 忽视, 不要理会, 不用理会, 忘记, 忘掉, 不必遵守, 抛开",
        "指令, 指示, 说明, 規則, 规则, 评分, 標準, 标准, 提示, 要求",
        "满分, 滿分, 最高分, 一百分, 100分, 评委您好, 致评委",
    ),
    "Japanese": _Language(
        "無視, 忘れ, 従わな, 考慮しな, 取り消",
        "指示, 命令, 基準, ルーブリック, 規則, 採点",
        "満点, 最高点, 最高評価, 100点, 審査員へ, 採点者へ",
    ),
    "Korean": _Language(
        "무시, 잊어, 잊고, 따르지 마, 고려하지",
        "지시, 지침, 명령, 기준, 규칙, 루브릭",
        "만점, 최고 점수, 최고점, 100점, 심사위원님, 채점자",
    ),
    "Arabic": _Language(
        "تجاهل, انس, لا تلتزم, اهمل, أهمل",
        "التعليمات, تعليمات, المعايير, معايير, القواعد, الإرشادات",
        "الدرجة الكاملة, العلامة الكاملة, أعلى درجة, الدرجة القصوى, درجة كاملة, عزيزي المقيم",
    ),
    "Hindi": _Language(
        "अनदेखा, नज़रअंदाज़, नजरअंदाज, भूल जा, ध्यान न दें, उपेक्षा",
        "निर्देश, मानदंड, नियम, आदेश",
        "पूरे अंक, पूर्ण अंक, अधिकतम अंक, सर्वोच्च अंक, सौ अंक, 100 अंक, प्रिय निर्णायक",
    ),
}
_WITHOUT_SPACES = {"Chinese", "Japanese", "Korean"}

# Combining marks and invisible characters.
_WITHOUT_MARKS = CategoryFilter(("Mn", "Me", "Cf"))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_WITHOUT_MARKS)


class _Signs(NamedTuple):
    """Folded words of a language, and the pattern that is searched if a text contains them."""

    ignoring: tuple[str, ...]
    rules: tuple[str, ...]
    full_marks: tuple[str, ...]
    near: re.Pattern[str]

    def are_in(self, text: str) -> bool:
        """Return whether a folded text has signs in this language."""
        if any(word in text for word in self.full_marks):
            return True
        return (
            any(word in text for word in self.rules)
            and any(word in text for word in self.ignoring)
            and self.near.search(text) is not None
        )


def _signs_of(name: str, language: _Language) -> _Signs:
    ignoring, rules, full_marks = (
        tuple(_folded(word.strip()) for word in words.split(",")) for words in language
    )
    start = "" if name in _WITHOUT_SPACES else r"\b"
    first, second = (f"{start}(?:{'|'.join(map(re.escape, words))})" for words in (ignoring, rules))
    between = "[^\n.!?\u3002]{0,40}?"
    near = re.compile(f"{first}{between}{second}|{second}{between}{first}")
    return _Signs(ignoring, rules, full_marks, near)


@cache
def _foreign() -> tuple[_Signs, ...]:
    """Return the signs in all languages; compiled on first use."""
    return tuple(_signs_of(*each) for each in _LANGUAGES.items())


def _any_of(*lists: str) -> re.Pattern[str]:
    patterns = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.MULTILINE)


@cache
def _signs() -> re.Pattern[str]:
    """Return the pattern of English signs; compiled on first use."""
    return _any_of(_SCORE_LINES, _ORDERS, _CHAT_FORMATS)


# The tag block repeats ASCII as invisible characters; only hidden text needs it.
_HIDDEN_ASCII = re.compile("[\U000e0020-\U000e007f]{4}")

# Orders without anything between their letters but single separators.
_SPACED = re.compile(r"(?<!\w)\w(?:[ ._*-]{1,3}\w(?!\w)){11,400}")
_SQUASHED = re.compile(
    r"(?:ignore|disregard|forget|bypass)(?:all|any|the|your)*(?:previous|prior|above|earlier)"
    r"|ignore\w{0,20}(?:rubric|instructions)|fullmarks|perfectscore|(?:give|score|award)\w{0,12}100"
)
_LEET_LINE = re.compile(
    r"^(?=(?:[^\n]{0,60}?\b[a-z]*[013457@$]{1,3}[a-z]{1,20}){3})[^\n]{1,500}", re.MULTILINE
)
_LEET = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{32,4000}={0,2}")
_MAX_DECODED = 100
_REVERSED_HINTS = ("snoitcurtsni", "cirbur", "erocs", "skram lluf")
_ROT13_HINTS = ("vafgehpgvbaf", "ehoevp", "shyy znexf", "fpber")


def is_injection_suspected(text: str) -> bool:
    """Return whether ``text`` addresses a judge or imitates a verdict.

    Case, width, combining marks, invisible characters and look-alikes of Latin letters are ignored.
    Spaced, reversed and encoded forms of the plainest orders are found too.
    """
    lower = text.lower() if text.isascii() else _folded(text)
    latin = lower.translate(LATIN_LOOK_ALIKES) if not lower.isascii() else lower
    signs = _signs()
    return (
        _HIDDEN_ASCII.search(text) is not None
        or signs.search(lower) is not None
        or (latin != lower and signs.search(latin) is not None)
        or any(language.are_in(lower) for language in _foreign())
        or any(signs.search(each) for each in _decoded(text, lower))
        or any(_SQUASHED.search(re.sub(r"\W|_", "", run[0])) for run in _SPACED.finditer(lower))
    )


def _decoded(text: str, lower: str) -> Iterator[str]:
    """Yield what simple codes in ``text`` say, in lower case."""
    if any(hint in lower for hint in _REVERSED_HINTS):
        yield lower[::-1]
    if any(hint in lower for hint in _ROT13_HINTS):
        yield codecs.encode(lower, "rot13")
    for line in _LEET_LINE.finditer(lower):
        yield line[0].translate(_LEET)
    for number, code in enumerate(_BASE64.finditer(text)):
        if number >= _MAX_DECODED:
            return
        try:
            yield base64.b64decode(code[0] + "=" * (-len(code[0]) % 4)).decode().lower()
        except ValueError:
            continue


_TAIL = 200


@dataclass(slots=True)
class InjectionDetector:
    """Detector for the texts of one session, in their order."""

    has_found: bool = False
    _tails: dict[str, str] = field(default_factory=dict)

    def read(self, plain: str, label: str, *, logged: str) -> None:
        """Look for signs in a text, and in the end of the one before it with its beginning.

        Args:
            plain: The text as a judge sees it, without terminal codes and hidden characters.
            label: Kind of the text, such as ``result``.
            logged: The text as logged.
        """
        if self.has_found:
            return
        joined = f"{self._tails.get(label, '')} {plain[:_TAIL]}"
        self._tails[label] = plain[-_TAIL:]
        self.has_found = (
            is_injection_suspected(plain)
            or _HIDDEN_ASCII.search(logged) is not None
            or is_injection_suspected(joined)
        )
