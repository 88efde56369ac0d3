"""Words with which models state an answer, in the languages of multilingual benchmarks: parts of regular expressions.

They are used without regard to case. A word of a script that is written without spaces, or with endings stuck to a
letter as in Korean, ends anywhere; another one at the end of a word.
"""

import re
from string import ascii_uppercase

UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
INSIDE = rf"[^\W{UNSPACED}]"
"""A character that goes on a word."""


def word(alternatives: str) -> str:
    """Any of the alternatives, `one|two`, as a whole word."""
    spaced: list[str] = []
    unspaced: list[str] = []
    for alternative in alternatives.split("|"):
        (unspaced if re.search(f"[{UNSPACED}]", alternative) else spaced).append(alternative)
    return rf"(?:(?<!{INSIDE})(?:{'|'.join(spaced)})(?!{INSIDE})|{'|'.join(unspaced) or '(?!)'})"


def _joined(*lines: str) -> str:
    return "|".join(lines)


ANSWER = _joined(
    r"answer|antwort|lösung|réponse|respuesta|resposta|gabarito|risposta|antwoord|svar|svaret|vastaus",
    r"odpowiedź|odpověď|válasz",
    r"răspuns|răspunsul|cevap|yanıt|cevabı|jawaban|jawaban(?:nya)?|jawapan|jibu|ìdáhùn|idahun|đáp án",
    r"câu trả lời|απάντηση",
    r"ответ|ответом|відповідь|відповіддю|תשובה|התשובה|الإجابة|الاجابة|إجابة|الجواب|جواب|پاسخ",
    r"उत्तर|जवाब|উত্তর|பதில்|விடை|సమాధానం|జవాబు|คำตอบ(?:ที่ถูกต้อง)?",
    r"答案|答(?=\s{0,2}[:：])|正确的|正確的|正确选项|正確選項|答え|答案|正解|正答|解答|回答|正しいのは|정답|답변|(?<![\uac00-\ud7af])답",
)
"""What is stated: "answer"."""

OPTION = _joined(
    r"option|choice|möglichkeit|opción|opção|alternativa|opzione|optie|alternativ|vaihtoehto|opcja|možnost",
    r"opțiunea|varianta",
    r"вариант|варіант|seçenek|şık|opsi|pilihan|phương án|επιλογή|אפשרות|الخيار|گزینه|विकल्प|বিকল্প",
    r"ตัวเลือก|ข้อ",
    r"选项|選項|选择|選擇|選択肢|선택지|보기",
)
"""What an answer may be: "option"."""

IS = _joined(
    r"is|are|would be|should be|must be|will be|ist|lautet|wäre|est|c['’]est|es|sería|é|è|är|er",
    r"(?<=vastaus )on|(?<=odpowiedź )to|jest|je|este|является",
    r"это|це|είναι|היא|הוא|هي|هو|است|है|হল|হলো|হচ্ছে|คือ|เป็น|adalah|ialah|là|ni|应该是|應該是|应是|應是|应为|應為|就是|是|为|為",
    r"は|が|은|는|이|가",
)
RIGHT = _joined(
    r"correct|right|correcte|correcta|correcto|juste|exacte|bonne|richtig|richtige|korrekt|korrekte|certa",
    r"correta|giusta|corretta",
    r"esatta|juist|juiste|rätt|riktig|oikea|prawidłowa|poprawna|správná|helyes|corect|corectă|правильный",
    r"правильным|верный|верным",
    r"верен|правильный|правилен|правильна|правильний|doğru|yang benar|yang tepat|benar|đúng|chính xác",
    r"sahihi|σωστή|הנכונה|נכונה",
    r"الصحيحة|الصحيح|صحيحة|صحيح|صحیح|درست|सही|সঠিক|ถูกต้อง|ที่ถูกต้อง|正确|正確|对的|對的|正しい|정답|맞다",
)
_ARTICLE = _joined(
    r"the|die|la|le|(?-i:a)|(?-i:o)|l['’]option|el|letter|letra|lettera|lettre|buchstabe|буква|буквой|под",
    r"number|nummer|故|应|應|项|項|最终",
)
_ADVERB = r"therefore|thus|clearly|then|hence|also|somit|daher|donc|final|النهائية|cuối cùng"
AFTER_ANSWER = _joined(IS, RIGHT, OPTION, _ARTICLE, _ADVERB)
"""What may stand between "answer" and the answer itself."""

NOT = _joined(
    r"not|whether|ob|[a-z]{2,6}n['’]t|neither|nor|rule out|ruled out|exclude|excluded|eliminate|eliminated|weder|noch",
    r"ni|ausschließen|nicht|kein|keine|pas|no|não|non|niet|geen|inte|ikke|ei|nie|není|nem|nu|не|değil",
    r"bukan|không|si|δεν|לא|ليست|ليس|نیست|नहीं|নয়",
    r"不|不是|并非|並非|非|排除|ではない|ではありません|아니",
)
WRONG = _joined(
    r"wrong|incorrect|false|falsch|inkorrekt|faux|fausse|incorrecte|incorrecta|incorrecto|falsa|falso",
    r"incorreta|errada|sbagliata|errata",
    r"onjuist|fout|fel|forkert|feil|väärä|nieprawidłowa|błędna|nesprávná|helytelen|greșită|неверен",
    r"неверный|неправильный|неправилен|неверно",
    r"неправильна|yanlış|salah|sai|λάθος|שגויה|خاطئ|خاطئة|خطأ|غلط|نادرست|गलत|ग़लत|ভুল|ผิด|ไม่ถูกต้อง|değil|değildir",
    r"नहीं|নয়",
    r"ではない|ではなく|ではありません|でない|じゃない|아니|아닙|(?:被|可)?排除|不正确|不正確|不对|不對|不符|错误|錯誤|错|錯|均不|都不|均错|誤り|間違い|틀|오답",
)
"""What makes an option no answer: "wrong"."""

OTHER_THAN = _joined(
    r"cannot|never|unlike|unlikely|rather than|instead of|far from|reject(?:ed|ing)?|disagree with|excluding",
    r"eliminating|ruling out|rules out|without|bukanlah|không phải|ไม่ใช่",
    r"avoid(?:ing)?|discard(?:ed|ing)?|dismiss(?:ed|ing)?|cross(?:ed|ing)? out|ignor(?:e|ed|ing)|skip(?:ped|ping)?",
    r"(?:any|every)(?:thing|one)?(?: (?:option|choice|letter|answer))? (?:but|except(?: for)?|besides|other than)",
)
"""What denies the option that follows it, as "not" does; not "all are wrong except", which chooses it."""
NOT_THOUGHT = _joined(
    r"(?:not|[a-z]{2,6}n['’]t|never) (?:think|believe|say)",
    r"(?:glaube|denke|meine) nicht, dass|no (?:creo|pienso) que|não (?:acho|creio|penso) que",
    r"ne (?:pense|crois) pas que|non (?:credo|penso) che|не думаю, что|不(?:认为|認為|觉得|覺得)",
    r"(?<!no )(?<!not )(?<!n['’]t )(?<!without )(?<!beyond )doubt(?:ed)?",
)
"""What denies the statement that follows it: "I doubt that the answer is C"."""
NOT_AFTER = r"değil(?:dir)?|نیست|नहीं|নয়|(?:이|가|은|는)?[ ]?아[니닙]|では(?:な|あり)|じゃな"
"""The same of a statement before it."""
ALL_BUT = (
    r"(?:(?:之外|以外|外)[，,]?)?(?:(?:其他|其余|其它)(?:选项|選項)?)?(?:都|均|全)(?:是)?(?:正确|正確|对|對|可以|符合)"
)
"""What says of all other options that they are right: 除了C都对; where several letters stand before it, all are."""
NO = r"(?i:no\b(?! doubt)|nope|I (?:think|guess) not|I don['’]t think so|hardly|nein|non\b|不是|不对|いいえ|нет)"
"""What denies the question before it: "The answer is C? I think not"."""
BE = _joined(
    r"(?:to )?be|only|even|choose|pick|select|go(?:ing)? (?:with|for)|ole",
    r"ser|sea|seja|sia|soit|puede|pode|può|essere|être|быть|может",
    r"选|選|选择|可能|会|會|能",
)
"""What may stand between "not" and the answer, beside what stands between "answer" and the answer."""

AND_OR = _joined(
    r"and|or|und|oder|et|ou|y|o|e|i|lub|og|eller|en|of|ja|tai|и|или|і|або|ve|veya|dan|atau|và|hoặc|και|ή|و",
    r"أو|या|और|as well as|along with|together with|plus|through",
)
"""Between two answers, as words."""
AND_OR_SIGNS = r"和|与|與|或者|或|及|以及|と|または|か|와|과|또는|하고"
"""The same in scripts without spaces."""

LABELS = {
    **{chr(ord("Ａ") + place): letter for place, letter in enumerate(ascii_uppercase)},
    **{chr(ord("ａ") + place): letter for place, letter in enumerate(ascii_uppercase)},
    **dict(zip("１２３４５６７８９", "123456789", strict=True)),
    **dict(zip("①②③④⑤⑥⑦⑧⑨", "123456789", strict=True)),
}
"""Other forms of the labels of options."""
LETTERS = {
    letter: label
    for row in ("أبجده", "कखगघङ", "কখগঘঙ", "กขคงจ", "ΑΒΓΔΕ")
    for letter, label in zip(row, "ABCDE", strict=True)
}
LETTERS |= {"ا": "A", "А": "A", "С": "C", "Е": "E"}
"""First letters of other alphabets, as labels, without the Cyrillic В, which is the third and looks like the second."""
