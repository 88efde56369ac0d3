r"""What counts as the answer of a response: a table by class, with as many right pairs as wrong look-alikes.

A row is (reference answer, response), written by hand. A wrong one differs from a right one by what its class is about.
"""

import pytest

from diver.core.types import Grade, Problem
from diver.grading import grade
from diver.grading.settings import Verification

PATIENT = Verification(timeout_s=120.0)  # on a busy machine 5 seconds of the clock are few of the processor

COLOURS = "What is the colour of grass?\nA) red\nB) blue\nC) green\nD) a kind of grey"
LETTERS = "Which letter?\n" + "\n".join(f"{letter}. word {letter.lower()}" for letter in "ABCDEFGHIJ")
TWELVE = "Which shape?\nOptions:\n" + "\n".join(f"({letter}) shape {letter.lower()}" for letter in "ABCDEFGHIJKL")

RIGHT_AND_WRONG = {
    "boxes without a backslash": (
        "math",
        [
            ("70", r"so the sum is boxed{70}\).</answer>"),
            ("12", "$boxed{12}$"),
            ("12", "The final answer is: $boxed{12}$. I hope it is correct."),
            ("13", "Put it in boxed{...}: 13"),
        ],
        [
            ("12", r"I first get boxed{12}; finally \boxed{13}"),
            ("12", "I get boxed{12} first. No, the total is boxed{"),
            ("12", "unboxed{12}"),
            ("12", "use boxed{answer}: it is 13"),
        ],
    ),
    "numbers that are denied, asked about or one of several": (
        "math",
        [
            (r"x \neq 5", "The solution is $x != 5$"),
            ("4343_6", "The answer is 4343 base 6."),
            ("甲", "答案：甲"),
        ],
        [
            ("5", "The answer is 5 (or 6)."),
            ("5", "The answer is 5, maybe 6."),
            ("30", "所以一共30万元。"),
            ("甲", "答案：乙"),
            ("5", "The answer is 5 or 6 or 7 or 8"),
        ],
    ),
    "answer tags": (
        "math",
        [
            ("19", "<answer>19</answer>"),
            ("19", "<ANSWER type='number'>\n19\n</ANSWER>"),
            ("19", "<think><answer>18</answer></think><answer>19</answer>"),
            ("19", "<answer>18</answer> No, I forgot one: <answer>19</answer>"),
            ("19", "The sum is 18 + 1.\n<answer>19"),
            ("19", r"<answer>The total is $\boxed{19}$.</answer>"),
            ("19", "<answer>boxed{19}</answer>"),
            ("19", "<answer>**Answer:** 19</answer>"),
            ("19", "<answer>18 and one more make 19.</answer>"),
            ("19", "<answer>18</answer>\nI check that again: \\boxed{19}"),
            ("19", "I write it between <answer> and </answer>. So we have 19."),
            (r"\frac{y}{3}", "<answer>y/3</answer>"),
            ("no such number exists", "<answer>No such number exists</answer>"),
        ],
        [
            ("19", "<answer>18</answer>"),
            ("19", "<ANSWER type='19'>\n18\n</ANSWER>"),
            ("18", "<think><answer>18</answer></think><answer>19</answer>"),
            ("18", "<answer>18</answer> No, I forgot one: <answer>19</answer>"),
            ("18", "The sum is 18 + 1.\n<answer>19"),
            ("19", r"<answer>The total of 19 is $\boxed{18}$.</answer>"),
            ("19", r"\boxed{19}<answer>boxed{18}</answer>"),
            ("19", "<answer>**Answer:** 18 or 19</answer>"),
            ("18", "<answer>18 and one more make 19.</answer>"),
            ("18", "<answer>18</answer>\nI check that again: \\boxed{19}"),
            (r"\frac{y}{3}", "y/3<answer>3/y</answer>"),
            ("maybe", "<answer>Maybe not.</answer>"),
            ("no such number exists", "<answer>Such a number exists</answer>"),
        ],
    ),
    "a box that is only named": (
        "math",
        [
            ("31", r"Please use \boxed for it. We get 31."),
            ("31", r"I shall fill \boxed{}: we get 31."),
            ("31", r"It goes into \boxed{...} later. The answer is 31."),
            ("31", r"\boxed{31} is my answer in a \boxed{} as you asked."),
        ],
        [
            ("31", r"Please use \boxed for it. 31 is too many, so we get 30."),
            ("31", r"We get 31: \boxed{}"),
            ("31", r"In the form \boxed{30}, as asked: 31."),
            ("31", r"31 goes into \boxed{...} later. The answer is 30."),
            ("31", r"\boxed{30} is my answer in a \boxed{} as you asked. Not 31."),
        ],
    ),
    "a box that never closes": (
        "math",
        [
            ("6", r"It is \boxed{5}. Once more: \boxed{6}"),
            ("6", r"It is \boxed{5}. Once more: \boxed{6"),
            ("6", r"We have \boxed{6"),
        ],
        [
            ("5", r"It is \boxed{5}. Once more: \boxed{"),
            ("5", r"It is \boxed{5}. Once more: \boxed{6"),
            ("5", r"It is $\boxed{5}$. Once more, and now it is \boxed"),
        ],
    ),
    "boxes joined by a word": (
        "math",
        [
            ("8", r"The value of \boxed{n} is \boxed{8}."),
            ("8,9", r"\boxed{8} and the other root is \boxed{9}"),
            ("8,9", r"\boxed{9} und \boxed{8}"),
            ("8,9", r"$\boxed{8}$ 或 $\boxed{9}$"),
        ],
        [
            ("n", r"The value of \boxed{n} is \boxed{8}."),
            ("9", r"\boxed{8} and the other root is \boxed{9}"),
            ("8", r"\boxed{9} und \boxed{8}"),
            ("9", r"$\boxed{8}$ 或 $\boxed{9}$"),
        ],
    ),
    "what is no statement": (
        "math",
        [
            ("11", "Of 64 letters, the unanswered ones are 11."),
            ("11", "The answer is 11. This took 64 minutes."),
        ],
        [
            ("64", "Of 64 letters, the unanswered ones are 11."),
            ("64", "The answer is 11. This took 64 minutes."),
        ],
    ),
    "sentences after the answer": (
        "math",
        [
            ("56", "答案是56。因为每排有7个，共8排。"),
            ("56", "所以答案为 $56$ 元。验算：$7 \\times 9 = 63$，太多了。"),
            ("56", "Die Antwort ist 56. Das sind 8 Reihen."),
            ("56", "La réponse est 56. Il y a 8 rangées."),
            ("56", "정답은 56입니다. 모두 8줄입니다."),
        ],
        [
            ("8", "答案是56。因为每排有7个，共8排。"),
            ("63", "所以答案为 $56$ 元。验算：$7 \\times 9 = 63$，太多了。"),
            ("8", "Die Antwort ist 56. Das sind 8 Reihen."),
            ("8", "La réponse est 56. Il y a 8 rangées."),
            ("8", "정답은 56입니다. 모두 8줄입니다."),
        ],
    ),
    "the line #### n": (
        "gsm8k",
        [
            ("12", "6 and 6\n#### 12"),
            ("12", "6 and 6 is 12. #### 12 eggs\n\nQuestion: 7 hens?"),
            ("9", "#### Step 2\nThat makes 9."),
            ("9", "#### 2. Count the eggs\nThat makes 9."),
            ("9", "I end with #### 12 in lines of the old form.\nHere it is 9."),
            ("9", "The answer is 9. Hens lay for 30 days."),
        ],
        [
            ("6", "6 and 6\n#### 12"),
            ("7", "6 and 6 is 12. #### 12 eggs\n\nQuestion: 7 hens?"),
            ("2", "#### Step 2\nThat makes 9."),
            ("2", "#### 2. Count the eggs\nThat makes 9."),
            ("12", "I end with #### 12 in lines of the old form.\nHere it is 9."),
            ("30", "The answer is 9. Hens lay for 30 days."),
        ],
    ),
    "words after a sentence with a number": (
        "math",
        [
            ("no", "57 is 3 times 19.\n\n[No]"),
            ("False", "57 is 3 times 19.\n\nAnswer: False"),
            ("Yes", "53 has no divisor up to 7, so the answer is yes."),
            ("odd", "57 and 2 make 59, so the sum is odd."),
            ("yes", "Yes, 53 is prime."),
            ("无解", "因为 4 < 5，所以方程无解。"),
        ],
        [
            ("yes", "57 is 3 times 19.\n\n[No]"),
            ("True", "It is true that 57 is 3 times 19.\n\nAnswer: False"),
            ("No", "53 has no divisor up to 7, so the answer is yes."),
            ("odd", "57 and 1 make 58, so the sum is not odd."),
            ("yes", "The answer is yes.\n\nNo, 57 is 3 times 19."),
            ("相等", "因为 4 < 5，所以两者不相等。"),
        ],
    ),
    "a choice stated in another language": (
        "choice",
        [
            ("C", "Die richtige Antwort ist (C)."),
            ("C", "La bonne réponse est la C. La A est fausse."),
            ("C", "La respuesta correcta es la C, no la B."),
            ("C", "A alternativa correta é a C. A alternativa B está errada."),
            ("C", "La risposta giusta è C."),
            ("C", "答案是C，因为B选项错误。"),
            ("C", "综上，应选C。A、B项不对。"),
            ("C", "正解はCです。Bは誤りです。"),
            ("C", "정답은 C입니다. B는 틀렸습니다."),
            ("C", "Верный ответ — C. Вариант B неверен."),
            ("C", "الإجابة الصحيحة هي ج"),
            ("C", "सही उत्तर: C"),
            ("C", "Doğru cevap C."),
            ("C", "答案：Ｃ"),
        ],
        [
            ("C", "Die richtige Antwort ist nicht (C)."),
            ("A", "La bonne réponse est la C. La A est fausse."),
            ("B", "La respuesta correcta es la C, no la B."),
            ("C", "A alternativa correta é a B. A alternativa C está errada."),
            ("C", "La risposta giusta non è C."),
            ("B", "答案是C，因为B选项错误。"),
            ("C", "综上，不选C。"),
            ("B", "正解はCです。Bは誤りです。"),
            ("C", "정답은 C가 아닙니다."),
            ("B", "Верный ответ — C. Вариант B неверен."),
            ("C", "الإجابة الصحيحة هي ب"),
            ("C", "सही उत्तर: B या C"),
            ("C", "Doğru cevap C değil."),
            ("C", "答案：Ｂ、Ｃ"),
        ],
    ),
    "a letter with its text": (
        "choice",
        [
            ("C", r"\boxed{C - green}"),
            ("C", r"\boxed{\text{Option C: green}}"),
            ("C", "c. green"),
            ("D", "Answer: A kind of grey"),
            ("C", "<answer>(c) green</answer>"),
        ],
        [
            ("C", r"\boxed{C - blue}"),
            ("C", r"\boxed{\text{Option C: red}}"),
            ("C", r"\boxed{green (B)}"),
            ("C", "c. blue"),
            ("A", "Answer: A kind of grey"),
            ("C", "<answer>(c) red</answer>"),
        ],
    ),
    "a letter after a formula": (
        "choice",
        [
            ("C", r"The wavelength is $\boxed{\lambda = 530}$. **Answer: C**"),
            ("C", r"\boxed{530 \text{ nm}}, which is option (C)."),
            ("C", r"\boxed{530}" + "\n\nC"),
        ],
        [
            ("C", r"**Answer: C** The wavelength is $\boxed{\lambda = 530}$."),
            ("C", r"\boxed{530 \text{ nm}}, which is not option (C)."),
            ("C", r"\boxed{B}" + "\n\nC"),
        ],
    ),
    "several letters": (
        "choice",
        [
            ("C", "答案：C。A、B、D都不是。"),
            ("C", "C ist richtig, A und B sind falsch."),
            ("C", "Neither A nor B is right. The answer is C."),
        ],
        [
            ("C", "【答案】A、B、C都可以。"),
            ("C", "Antwort: B oder C"),
            ("C", "Neither B nor C is right."),
        ],
    ),
    "a list of letters is no choice": (
        "choice",
        [
            ("D", "The answer is D.\n\nA) red\nB) blue\nC) green\nD) a kind of grey"),
            ("C", "Answer: C\n\nA: it is a flower's. B: the sky's. D: too dull."),
            ("C", "**Answer: C**\n\n**A)** red is a flower's.\n**D)** grey is dull."),
            ("C", "Answer: (C)\n(A) is wrong, (B) too."),
            ("C", "Answer: C A meadow is green."),
            ("C", "**B**\n\nWait, no.\n\n**C**"),
            ("C", "I would pick option C. Option A and option B are wrong."),
            ("C", "We can exclude (A), (B), and (D). (C)"),
            ("C", "I would not choose A or B. (C)"),
            ("C", "It is not B and C is right."),
            ("C", "Option C. Option D is tempting."),
            ("D", "A, B and C are wrong. D"),
        ],
        [
            ("D", "A) B) C) D)"),
            ("D", "(A) (B) (C) (D)"),
            ("D", "**A** **B** **C** **D**"),
            ("D", "A B C D"),
            ("D", "- A\n- B\n- C\n- D"),
            ("D", "A) red\nB) blue\nC) green\nD) a kind of grey"),
            ("D", "A) red B) blue C) green D) a kind of grey"),
            ("D", "Option A, option B, option C and option D are all plausible."),
            ("D", "Answer: D C"),
            ("B", "Answer: B and C are both correct."),
            ("A", "I would pick option C. Option A and option B are wrong."),
            ("B", "I would not choose A or B."),
            ("D", "A | B | C | D"),
        ],
    ),
    "a choice that is denied": (
        "choice",
        [
            ("C", "There is no doubt that the answer is C."),
            ("C", "I don't doubt that the answer is C."),
            ("C", "I'm not sure but I think the answer is C."),
            ("C", "It cannot be A, so it must be C."),
            ("C", "(C) cannot be wrong."),
            ("C", "It is nothing but C."),
            ("C", "All are wrong except C."),
            ("C", "The answer is anything but B. So it is C."),
            ("C", "The answer is C rather than B."),
            ("C", "The answer is neither B nor D but C."),
            ("C", "The answer might be C."),
            ("C", "I can only choose C."),
            ("C", "La respuesta puede ser C."),
            ("C", "C सही है।"),
            ("C", "答案可能是C。"),
            ("C", "我认为答案是C。"),
            ("C", "Ich glaube, dass die Antwort C ist."),
            ("C", "Creo que la respuesta es C."),
            ("C", "Je pense que la réponse est C."),
        ],
        [
            ("C", "The answer is anything but C."),
            ("C", "The answer cannot be C."),
            ("C", "The answer can't be C."),
            ("C", "Answer: any except C"),
            ("C", "B instead of C"),
            ("C", "It is unlikely to be C."),
            ("C", "I wouldn't choose C."),
            ("C", "I reject (C)."),
            ("C", "La respuesta no puede ser C."),
            ("C", "不可能是C。"),
        ],
    ),
    "the article A": (
        "choice",
        [
            ("A", "Answer: A because roses are"),
            ("A", "Answer: A red"),
            ("A", "Answer: A red\nas a rose"),
            ("A", "Answer: A, a colour"),
            ("A", "The answer is A in this case."),
        ],
        [],
    ),
    "the word I": (
        "choice of ten",
        [
            ("I", "Answer: I"),
            ("I", "The answer is I because it is the ninth."),
            ("I", "ANSWER: (I) word i"),
        ],
        [
            ("I", "Answer: I do not know"),
            ("I", "The answer is I guess unknown."),
            ("I", "ANSWER: I would need the text"),
        ],
    ),
    "a letter after J": (
        "choice of twelve",
        [
            ("(K)", "So the answer is (K)."),
            ("K", r"\boxed{\text{(K)}}"),
            ("K", "k"),
            ("K", "The answer is not L but K."),
            ("K", "shape k"),
            ("L", "答案：Ｌ"),
            ("L", "The answer is L, where X is the length."),
        ],
        [
            ("(K)", "So the answer is not (K)."),
            ("K", r"\boxed{\text{(L)}}"),
            ("K", "k or l"),
            ("K", "The answer is not K but L."),
            ("K", "K. shape l"),
            ("L", "答案：Ｋ、Ｌ"),
            ("L", "The answer is X, where L is the length."),
        ],
    ),
    "all but one": (
        "choice",
        [
            ("C", "It is none other than C."),
            ("C", "The correct option can be nothing but (C)."),
            ("C", "The answer is not A but C."),
            ("C", "不是A，而是C。"),
            ("C", "Nicht A, sondern C."),
            ("C", "答案是C，其他都正确。"),
            ("C", "除了C以外都不对，所以选C。"),
        ],
        [
            ("C", "It is anything other than C."),
            ("C", "The correct option can be anything but (C)."),
            ("C", "The answer is not C but A."),
            ("C", "不是C，而是A。"),
            ("C", "Nicht C, sondern A."),
        ],
    ),
    "a choice that is dropped": (
        "choice",
        [
            ("C", "Avoid B. Choose C."),
            ("C", "We dismiss A and B, so C"),
            ("C", "Without doubt, C"),
            ("C", "I'm going with C."),
            ("C", "Option (C) green is right."),
            ("C", "The answer is C? Yes."),
            ("C", "The answer is C? No doubt."),
            ("A", "A: correct. B: incorrect."),
        ],
        [
            ("B", "Avoid B."),
            ("C", "We dismiss A, B and D. I discard C."),
            ("C", "Without C"),
            ("C", "I'm not going with C."),
            ("C", "Option C does not fit."),
            ("C", "The answer is C? I think not."),
            ("C", "The answer is C? No."),
        ],
    ),
    "several letters in a row of other marks and words": (
        "choice",
        [
            ("C", '{"answer": "C"}'),
            ("C", '{"answer": "C", "rejected": "B"}'),
            ("C", "answer: c and a metal rusts"),
            ("C", "C, as well as I can see."),
            ("A", "Antwort: A"),
            ("C", "The answer is C; B would also need rain."),
        ],
        [
            ("C", '{"answer": ["A", "C"]}'),
            ("C", '{"answer": "B", "rejected": "C"}'),
            ("C", "Antwort: A und C"),
        ],
    ),
    "options that are judged one by one": (
        "choice",
        [
            ("C", "- A) no\n- B) no\n- C) right\n- D) no"),
            ("C", "C, and here is why.\n\nSo it is C.\n\nC) it is a meadow's."),
        ],
        [],
    ),
    "where an extreme is attained": (
        "math",
        [],
        [
            ("7", "The maximum is **8** (at x = 7)."),
        ],
    ),
    "choices that are taken back, guessed or left out": (
        "choice",
        [
            ("C", "The answer is B. Sorry, I meant C."),
            ("C", "The answer is B... actually, C."),
            ("C", "B. Hmm, C."),
            ("C", "All are wrong except C, so C."),
            ("C", "Perhaps B at first. Surely C."),
            ("B", "None but B"),
        ],
        [
            ("C", "The answer is C. Sorry, I meant B."),
            ("C", "The answer is C... actually, B."),
            ("C", "C. Hmm, B."),
            ("C", "All except C"),
            ("B", "Every colour but B"),
        ],
    ),
    "the text of an option in a sentence": (
        "choice",
        [
            ("C", "**Answer:** green"),
            ("C", r"\boxed{\textbf{green}}"),
        ],
        [
            ("C", "**Answer:** not green"),
            ("C", "So green is not the correct answer."),
            ("C", "The correct answer is green or blue because meadows are."),
            ("C", r"\boxed{\textbf{green} \text{ or } \textbf{blue}}"),
        ],
    ),
}


def test_no_pair_is_there_twice():
    pairs = [pair for _, *tables in RIGHT_AND_WRONG.values() for table in tables for pair in table]
    assert len(pairs) == len({*pairs})


@pytest.mark.parametrize("name", RIGHT_AND_WRONG)
def test_classes(name):
    verifier, right, wrong = RIGHT_AND_WRONG[name]
    pairs = [*right, *wrong]
    prompt = {"choice": COLOURS, "choice of ten": LETTERS, "choice of twelve": TWELVE}.get(verifier, "q")
    problems = [Problem("p", prompt, known, verifier=verifier.split()[0]) for known, _ in pairs]
    grades = grade([(text, problem) for (_, text), problem in zip(pairs, problems, strict=True)], PATIENT)
    expected = [True] * len(right) + [False] * len(wrong)
    found = zip(pairs, grades, expected, strict=True)
    assert [(pair, str(g)) for pair, g, is_right in found if (g is Grade.CORRECT) != is_right] == []
    assert not {Grade.TIMEOUT, Grade.ERROR} & {*grades}
