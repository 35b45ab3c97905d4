"""Perfect agents: every role of every method, played from gold decompositions and from what the prompt shows.

An agent knows the decomposition of the question, which is what a perfect reader would make of it, and nothing of the
answers but what its prompt says: a fact counts only if its gold sentence is among the passages shown, or if an earlier
step has answered it. So the results tell what retrieval and control flow are worth apart from the model. An agent that
is wrong with a probability errs in the way that its role can: by the seed and the request, so that the same request
gets the same reply.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hopgraph.evaluation.metrics import containment
from hopgraph.simulation.endpoint import Completion, Request, Token
from hopgraph.simulation.gold import Case, Fact, Form, same, squeezed

__all__ = ["PerfectAgents"]

NO_ANSWER = "Not Answerable"
SURE = 0.99
"""Probability that an agent gives its answers and verdicts, wrong ones included: it does not know when it errs."""

_PASSAGE = re.compile(r'<passage number="(\d+)" title="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)
_SENTENCE = re.compile(r"^\[(\d+\.\d+)\] (.*)$", re.MULTILINE)
_QUESTION = re.compile(r"<question>(?P<question>.*?)</question>", re.DOTALL)
_CLAIM = re.compile(r'^Claim: the answer to "(?P<question>.*)" is "(?P<answer>.*)"\.$', re.MULTILINE)
_JUDGED = re.compile(r"^Answer: (?P<answer>.*)$", re.MULTILINE)
_QUERY = re.compile(r"<query>(.*?)</query>", re.DOTALL)
_HOP = re.compile(r"^\d+\. (.*) Answer: (.*)$", re.MULTILINE)
_STEP = re.compile(r'<step number="\d+">\nThought: .*\nQuestion: (.*)\nAnswer: (.*)\nEvidence: .*\n</step>')
_PAIR = re.compile(r'<evidence subquestion="[^"]*">(.*?)</evidence>', re.DOTALL)
_SEARCH = re.compile(r"^Action \d+: search\[(.*)\]$", re.MULTILINE)
_TRIES = (1, 0, 2)
"""In which words ReAct asks: keywords, a question, all of the user's."""
_UNKNOWN = frozenset({"", "(unknown)", "(no answer, see the passages)"})

Reply = Mapping[str, Any] | Completion
Role = Callable[["PerfectAgents", "Prompt", bool], Reply]
"""What an agent replies to a prompt; the last argument says that it errs."""


@dataclass(frozen=True)
class Passage:
    """A passage as a prompt shows it."""

    number: str
    title: str
    text: str
    sentences: tuple[tuple[str, str], ...]
    """Label and text, where sentences have labels."""


class Prompt:
    """What an agent sees."""

    def __init__(self, request: Request, find: Callable[[str], Sequence[Case]]) -> None:
        self.text = request.prompt
        self._find = find

    @cached_property
    def question(self) -> str:
        """The question that is asked: the user's, or a step's."""
        found = _QUESTION.search(self.text) or _CLAIM.search(self.text)
        return found["question"].strip() if found else ""

    @cached_property
    def query(self) -> str:
        """PruneRAG's query; else the question."""
        found = _QUERY.search(self.text)
        return found[1].strip() if found else self.question

    @cached_property
    def case(self) -> Case | None:
        """The user's question, where the prompt has it."""
        return next(
            (case for case in self._find(self.question) if squeezed(case.question) == squeezed(self.question)), None
        )

    @cached_property
    def asked(self) -> list[tuple[Case, Form | None]]:
        """What the query may ask for, by question: a fact, or (None) the question's answer."""
        cases = [self.case] if self.case else self._find(self.query)
        found: list[tuple[Case, Form | None]] = []
        for case in cases:
            if squeezed(case.question) == squeezed(self.query):
                found.append((case, None))
            elif form := case.form_of(self.query):
                found.append((case, form))
        return found

    @cached_property
    def passages(self) -> list[Passage]:
        """The passages shown."""
        return [
            Passage(number, title, text, tuple(_SENTENCE.findall(text)))
            for number, title, text in _PASSAGE.findall(self.text)
        ]

    @cached_property
    def _seen(self) -> str:
        texts = [" ".join(text for _, text in row.sentences) or row.text for row in self.passages]
        return "\n".join(squeezed(text) for text in texts)

    def shown(self, case: Case) -> set[int]:
        """Facts of a question whose evidence is among the passages."""
        return {fact.number for fact in case.facts if any(text in self._seen for text in fact.evidence)}

    def stated(self, case: Case, rows: Iterable[tuple[str, str]]) -> tuple[dict[int, str], set[int]]:
        """Answers that earlier steps gave to sub-questions, by fact; and the facts that they take for known."""
        answers: dict[int, str] = {}
        known: set[int] = set()
        for question, answer in rows:
            if answer.strip() not in _UNKNOWN and (form := case.form_of(question)):
                answers[form.fact.number] = answer.strip()
                known |= form.known if same(answer, form.fact.answer) else set()
        return answers, known


class PerfectAgents:
    """A model that plays every role.

    Args:
        cases: The questions.
        wrong: Probability that a reply is wrong, 0 to 1.
        seed: Of two runs with the same seed the same requests get the same replies.
    """

    def __init__(self, cases: Sequence[Case], *, wrong: float = 0.0, seed: int = 0) -> None:
        self._cases = list(cases)
        self._wrong = wrong
        self._seed = seed
        self._by_form: dict[str, list[Case]] = {}
        for case in self._cases:
            for key in {_key(case.question), *case.forms}:
                self._by_form.setdefault(key, []).append(case)

    def __call__(self, request: Request) -> Completion:
        """The reply to a request.

        Raises:
            ValueError: The request is of no role that is known, or a prompt lacks what the role goes by.
        """
        role = ROLES.get(f"{request.method}/{request.node}")
        if role is None:
            raise ValueError(f"perfect agents do not know the role {request.method}/{request.node}")
        reply = role(self, Prompt(request, self.find), self.errs(request))
        return reply if isinstance(reply, Completion) else _said(reply)

    def errs(self, request: Request) -> bool:
        """Whether the reply to a request is to be wrong."""
        return self._chance(request.method, request.node, request.prompt) < self._wrong

    def find(self, text: str) -> Sequence[Case]:
        """Questions that a text is, or asks for a fact of."""
        return self._by_form.get(_key(text), [])

    def mistake(self, prompt: Prompt, right: str) -> str:
        """A wrong answer: the title of a passage that is shown, or the answer of another question."""
        titles = [row.title for row in prompt.passages if row.title and not same(row.title, right)]
        if not titles:
            titles = [case.answers[0] for case in self._cases if not same(case.answers[0], right)] or ["something else"]
        return titles[int(self._chance("mistake", prompt.text) * len(titles))]

    def facts_in(self, text: str) -> list[tuple[Case, Fact]]:
        """The facts of any question that stand in a text."""
        seen = squeezed(text)
        return [(case, fact) for case in self._cases for fact in case.facts if any(e in seen for e in fact.evidence)]

    def _chance(self, *parts: str) -> float:
        digest = hashlib.sha256("\0".join([str(self._seed), *parts]).encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64


def _key(text: str) -> str:
    return squeezed(text).rstrip("?.!")


def _said(reply: Mapping[str, Any]) -> Completion:
    """A JSON reply; a boolean is a token of its own, with the other word as its alternative."""
    text = json.dumps(reply, ensure_ascii=False)
    match = re.fullmatch(r'(\{"\w+": )(true|false)(\})', text)
    if match is None:
        return Completion(text)
    other = "false" if match[2] == "true" else "true"
    top = {match[2]: math.log(SURE), other: math.log(1 - SURE)}
    tokens: list[Token] = [(match[1], -0.01), (match[2], math.log(SURE), top), (match[3], -0.01)]
    return Completion(text, tokens)


def _resolve(prompt: Prompt, case: Case, form: Form | None, stated: Mapping[int, str] | None = None) -> str | None:
    """What passages (and earlier answers) say to a query; None when they do not."""
    values = case.values(prompt.shown(case), stated, form.known if form else ())
    return values.get(form.fact.number) if form else case.conclude(values)


def _from_passages(prompt: Prompt) -> str | None:
    """The answer to the query from the passages, whichever question it belongs to."""
    return next((found for case, form in prompt.asked if (found := _resolve(prompt, case, form)) is not None), None)


# Answering


def _answer(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """From passages; without any there is nothing to answer from."""
    found = _from_passages(prompt)
    return {"answer": agents.mistake(prompt, found or "")[:200] if errs else (found or NO_ANSWER)[:200]}


def _answer_from(rows: re.Pattern[str]) -> Role:
    """From earlier questions and answers, and from the passages beside them if there are any."""

    def answer(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
        case = _the_case(prompt)
        stated, known = prompt.stated(case, rows.findall(prompt.text))
        found = case.conclude(case.values(prompt.shown(case), stated, known))
        return {"answer": agents.mistake(prompt, found or "")[:200] if errs else (found or NO_ANSWER)[:200]}

    return answer


def _the_case(prompt: Prompt) -> Case:
    if prompt.case is None:
        raise ValueError(f"not a question of this simulation: {prompt.question[:100]!r}")
    return prompt.case


def _all_questions(case: Case, *, with_values: Mapping[int, str] | None = None) -> list[str]:
    return [case.ask(fact, with_values or {}) for fact in case.facts]


def _subquestions(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    case = _the_case(prompt)
    return {"subquestions": [case.question[:200]] if errs else _all_questions(case)[:8]}


# PRISM


def _labels(prompt: Prompt, wanted: Callable[[str, str], bool]) -> list[str]:
    return [label for row in prompt.passages for label, text in row.sentences if wanted(label, text)]


def _gold_labels(prompt: Prompt) -> list[str]:
    case = _the_case(prompt)
    evidence = {text for fact in case.facts for text in fact.evidence}
    return _labels(prompt, lambda _, text: squeezed(text) in evidence)


def _select(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """The sentences that state a fact. A wrong choice loses one of them and takes the first other one."""
    gold = _gold_labels(prompt)
    if errs:
        others = _labels(prompt, lambda label, _: label not in gold)
        return {"evidence": [*gold[1:], *others[:1]][:32]}
    return {"evidence": gold[:32]}


def _add(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    line = re.search(r"^Current evidence: (.*)$", prompt.text, re.MULTILINE)
    current = re.findall(r"\d+\.\d+", line[1]) if line else []
    missing = [label for label in _gold_labels(prompt) if label not in current]
    if errs:
        gold = _gold_labels(prompt)
        missing = _labels(prompt, lambda label, _: label not in gold and label not in current)[:1]
    return {"evidence": [*current, *missing][:32]}


# PruneRAG


def _expand(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """Answer what the passages answer; split what has several unknowns; else name what to search for."""
    may = {kind: f'"type": "{kind}"' in prompt.text for kind in ("answer", "query", "entity")}
    slots = re.search(r'"queries": \[(.*?)\]', prompt.text)
    number = slots[1].count('"..."') if slots else 2
    case, form = _asked_in(prompt)
    target = form.fact if form else None
    values = case.values(prompt.shown(case), None, form.known if form else ())
    answer = values.get(target.number) if target else case.conclude(values)
    if may["answer"] and errs:
        return {"type": "answer", "answer": agents.mistake(prompt, answer or "")[:200]}
    if may["answer"] and answer is not None:
        return {"type": "answer", "answer": answer[:200]}
    granted = form.known | {n for k in form.known for n in case.below(case.fact(k))} if form else frozenset()
    needed = [fact for fact in case.needed(target) if fact.number not in granted]
    queries = _split(case, target, needed, values, number)
    if may["query"] and not errs and len(queries) == number:
        return {"type": "query", "queries": queries}
    if may["entity"]:
        wanted = next((fact for fact in needed if fact.number not in values), needed[-1])
        return {"type": "entity", "entities": _entities(case, wanted, values)[:number]}
    if may["query"]:
        return {"type": "query", "queries": ([*queries, *[prompt.query[:200]] * number])[:number]}
    return {"type": "answer", "answer": ""}


def _asked_in(prompt: Prompt) -> tuple[Case, Form | None]:
    """What PruneRAG's query asks for; a query of somebody else's is taken for the question."""
    return prompt.asked[0] if prompt.asked else (_the_case(prompt), None)


def _split(case: Case, target: Fact | None, needed: list[Fact], values: Mapping[int, str], number: int) -> list[str]:
    """Simpler queries: what is unknown first, then what follows from it; what is known is put in."""
    unknown = [fact for fact in needed if fact.number not in values]
    ends = [target] if target else list(case.last)
    first = [fact for fact in unknown if all(n in values for n in fact.needs)]
    # Ends that do not rest on each other can be asked side by side; a chain is cut behind its first unknown.
    wanted = first if len(first) >= number else [*first, *(fact for fact in ends if fact not in first)]
    if len(wanted) < number:
        wanted = [*(fact for fact in needed if fact not in wanted), *wanted]
    texts = dict.fromkeys(case.ask(fact, values) for fact in wanted)
    return list(texts)[:number]


def _entities(case: Case, fact: Fact, values: Mapping[int, str]) -> list[str]:
    asked = case.ask(fact, values)
    if not fact.relation:
        return [asked[:100]]
    subject = asked.removesuffix("?").removeprefix(f"What is the {fact.relation} of ")
    return [subject[:200], f"{fact.relation} of {subject}"[:200]]


def _name_entities(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    case, form = _asked_in(prompt)
    fact = form.fact if form else case.facts[0]
    known = {number: case.fact(number).answer for number in (form.known if form else ())}
    found = [prompt.query] if errs else _entities(case, fact, known)
    return {"entities": [text[:100] for text in found]}


def _summarise(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """What the passages say of the query, as questions with their answers."""
    facts: dict[str, str] = {}
    for case, form in prompt.asked:
        values = case.values(prompt.shown(case), None, form.known if form else ())
        facts |= {case.ask(fact, values): values[fact.number] for fact in case.facts if fact.number in values}
    return {"summary": "" if errs else " ".join(f"{ask} {value}." for ask, value in facts.items())[:800]}


def _aggregate(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    case, form = _asked_in(prompt)
    stated, known = prompt.stated(case, _results(case, prompt.text))
    known |= form.known if form else set()
    values = case.values(prompt.shown(case), stated, known)
    found = values.get(form.fact.number) if form else case.conclude(values)
    return {"answer": agents.mistake(prompt, found or "")[:200] if errs else (found or NO_ANSWER)[:200]}


def _results(case: Case, text: str) -> list[tuple[str, str]]:
    """Sub-queries with their results: a line has one; that of an entity node has what was found, as a summary."""
    rows = []
    keys = sorted(case.forms, key=len, reverse=True)
    for line in re.findall(r"^- (.*)$", text, re.MULTILINE):
        seen = squeezed(line)
        asked = next((key for key in keys if seen.startswith(key)), None)
        if asked is not None:
            rows.append((asked, _after(line, len(asked)).lstrip("?.! ")))
            continue
        for key in keys:
            answer = case.forms[key].fact.answer
            if f"{key}?{squeezed(answer)}" in seen or f"{key}{squeezed(answer)}" in seen:
                rows.append((key, answer))
    return rows


def _after(text: str, letters: int) -> str:
    """What follows so many characters of a text, spaces not counted."""
    for place, letter in enumerate(text):
        if letters == 0:
            return text[place:]
        letters -= not letter.isspace()
    return ""


# Baselines


def _ask_on(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """Self-Ask: the next follow-up question, or the answer once it follows or nothing more can be asked."""
    case = _the_case(prompt)
    rows = _HOP.findall(prompt.text)
    stated, known = prompt.stated(case, rows)
    values = case.values((), stated, known)
    found = case.conclude(values)
    if errs:
        return {"type": "final", "answer": agents.mistake(prompt, found or "")[:200]}
    wanted = _wanted(case, values)
    attempts = _attempts(case, wanted, rows) if wanted else 0
    if found is None and wanted and attempts < 3 and '"follow_up"' in prompt.text:
        return {"type": "follow_up", "question": case.ask(wanted, values, attempts)[:200]}
    return {"type": "final", "answer": (found or NO_ANSWER)[:200]}


def _wanted(case: Case, values: Mapping[int, str]) -> Fact | None:
    """The first fact that is unknown, and whose subject is known."""
    return next((f for f in case.facts if f.number not in values and all(n in values for n in f.needs)), None)


def _attempts(case: Case, fact: Fact, rows: Iterable[tuple[str, str]]) -> int:
    return sum(form.fact == fact for question, _ in rows if (form := case.form_of(question)))


def _reason(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """IRCoT: a fact from the passages that no sentence states; then the conclusion, or what has to be found."""
    case = _the_case(prompt)
    said = [squeezed(line) for line in re.findall(r"^\d+\. (.*)$", prompt.text, re.MULTILINE)]
    values = case.values(prompt.shown(case), _false_statements(case, said))
    found = case.conclude(values)
    if found is not None and not errs:
        return {"sentence": f"So the answer is: {found}."[:400]}
    new = [case.statement(f, values) for f in case.facts if f.number in values]
    new = [text for text in new if not any(squeezed(text).startswith(line) for line in said)]
    wanted = _wanted(case, values)
    if errs and wanted:
        return {"sentence": case.statement(wanted, {**values, wanted.number: agents.mistake(prompt, "")})[:400]}
    if new:
        return {"sentence": new[0][:400]}
    sentence = f"Next to be found out: {case.ask(wanted, values).rstrip('?.! ')}." if wanted else ""
    if not sentence or any(squeezed(sentence).startswith(line) for line in said):
        sentence = f"So the answer is: {NO_ANSWER}."
    return {"sentence": sentence[:400]}


def _false_statements(case: Case, said: Sequence[str]) -> dict[int, str]:
    """What wrong sentences before made of facts: who reads them takes them for true."""
    found = {}
    for fact in case.facts:
        start = squeezed(case.statement(fact, {row.number: row.answer for row in case.facts})).removesuffix(
            f"{squeezed(fact.answer)}."
        )
        rest = next((line.removeprefix(start) for line in said if fact.relation and line.startswith(start)), "")
        if rest and not rest.startswith(squeezed(fact.answer)):
            found[fact.number] = rest.rstrip(".")
    return found


def _think_and_answer(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """What the passages state, what is missing, and the answer if it follows."""
    case = _the_case(prompt)
    values = case.values(prompt.shown(case))
    thoughts = [case.statement(fact, values) for fact in case.facts if fact.number in values]
    thoughts += [f"It is missing: {case.ask(wanted, values)}"] if (wanted := _wanted(case, values)) else []
    return {"thought": " ".join(thoughts)[:800], **_answer(agents, prompt, errs)}  # type: ignore[dict-item]


def _take_turn(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """ReAct: search for what is unknown, in other words where that was in vain; finish once the answer follows."""
    case = _the_case(prompt)
    values = case.values(prompt.shown(case))
    found, wanted = case.conclude(values), _wanted(case, values)
    searched = [form for text in _SEARCH.findall(prompt.text) if (form := case.form_of(text)) and form.fact == wanted]
    if errs:
        answer = agents.mistake(prompt, found or "")
        return {"thought": "The passages say so.", "action": "finish", "argument": answer[:200]}
    if found is None and wanted and len(searched) < len(_TRIES) and '- "search"' in prompt.text:
        words = case.ask(wanted, values, _TRIES[len(searched)])
        return {"thought": "A fact is missing.", "action": "search", "argument": words[:200]}
    thought = "The passages say so." if found else "It can't be found."
    return {"thought": thought, "action": "finish", "argument": (found or NO_ANSWER)[:200]}


def _complexity(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """Adaptive-RAG: one fact takes one search."""
    return {"route": "single_step" if (len(_the_case(prompt).facts) == 1) != errs else "multi_step"}


# HANRAG


def _route(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """One fact is a single step; facts that rest on none are compound; else the question is complex."""
    case = _the_case(prompt)
    chained = any(fact.needs for fact in case.facts)
    right = "single_step" if len(case.facts) == 1 else "complex" if chained else "compound"
    return {
        "route": {"single_step": "complex", "complex": "compound", "compound": "single_step"}[right] if errs else right
    }


def _decompose(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    return {"thought": "Each fact is asked for by itself.", **_subquestions(agents, prompt, errs)}  # type: ignore[dict-item]


def _chain(prompt: Prompt, case: Case) -> dict[int, str]:
    stated, known = prompt.stated(case, _HOP.findall(prompt.text))
    return case.values((), stated, known)


def _next_question(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """The first fact that is unknown and can be asked for; one that was asked for in vain is asked in other words."""
    case = _the_case(prompt)
    values = _chain(prompt, case)
    wanted = _wanted(case, values)
    if wanted is None or errs:
        return {"question": case.question[:200]}
    attempts = _attempts(case, wanted, _HOP.findall(prompt.text))
    return {"question": case.ask(wanted, values, attempts)[:200]}


def _relevant(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """A passage that states what is asked for, or a fact on the way to it."""
    useful = any(
        prompt.shown(case)
        & {fact.number for fact in case.needed(form.fact if form else None)} - (form.known if form else set())
        for case, form in prompt.asked
    )
    return {"relevant": useful != errs}


def _sufficient(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    case = _the_case(prompt)
    return {"sufficient": (case.conclude(_chain(prompt, case)) is not None) != errs}


# PAR-RAG


def _plan(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    case = _the_case(prompt)
    steps = [
        {"thought": "A fact that the answer rests on.", "question": text, "action": "Retrieve"}
        for text in _all_questions(case)
    ]
    if len(case.last) > 1:
        steps.append({"thought": "The facts are compared.", "question": case.question[:200], "action": "Answer"})
    if errs:
        steps = [{"thought": "It can be looked up.", "question": case.question[:200], "action": "Retrieve"}]
    return {"steps": steps}


def _act(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """Answer a step from passages and cite them; or from the steps before it."""
    if "<step " in prompt.text:
        return _answer_from(_STEP)(agents, prompt, errs) if prompt.case else {"answer": "I don't know"}
    for case, form in prompt.asked:
        found = _resolve(prompt, case, form)
        if found is not None and not errs:
            needed = case.needed(form.fact if form else None)
            cited = [row.number for row in prompt.passages if _states(row.text, needed)]
            return {"answer": f"{found[:200]} {''.join(f'[{number}]' for number in cited[:8])}"}
    if errs and prompt.passages:
        return {"answer": f"{agents.mistake(prompt, '')[:200]} [{prompt.passages[0].number}]"}
    return {"answer": "I don't know"}


def _states(text: str, facts: Iterable[Fact]) -> bool:
    seen = squeezed(text)
    return any(evidence in seen for fact in facts for evidence in fact.evidence)


def _is_right(prompt: Prompt) -> bool:
    """Whether the answer that is to be judged is what the passages say."""
    found = _JUDGED.search(prompt.text) or _CLAIM.search(prompt.text)
    answer = found["answer"] if found else ""
    return any(
        (right := _resolve(prompt, case, form)) is not None and same(right, answer) for case, form in prompt.asked
    )


def _score(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    return {"score": float(_is_right(prompt) != errs)}


def _attribute(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    return {"label": "attributable" if _is_right(prompt) != errs else "extrapolatory"}


def _refine(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """The next step's question with the answers so far put in."""
    for case in agents.find(prompt.question):
        form = case.form_of(prompt.question)
        if form is not None and not errs:
            stated, known = prompt.stated(case, _STEP.findall(prompt.text))
            return {"question": case.ask(form.fact, case.values((), stated, known))[:200]}
    return {"question": prompt.question[:200]}


# CompactRAG


def _graph(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """Sub-questions with their dependencies; an answer that one needs is spoken of as `this director`."""
    case = _the_case(prompt)
    rows = []
    for fact in case.facts:
        one = case.fact(fact.needs[0]) if len(fact.needs) == 1 else None
        word = f"this {one.relation}" if one and one.relation and one.relation.isalpha() else ""
        text = case.ask(fact, {number: word or f"#{number}" for number in fact.needs})
        rows.append({"question": text[:200], "depends_on": list(fact.needs)})
    return {"subquestions": [{"question": case.question[:200], "depends_on": []}] if errs else rows[:16]}


def _synthesise(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """From the pairs; what the extractor took from them is not relied on."""
    case = _the_case(prompt)
    pairs = [squeezed(text) for text in _PAIR.findall(prompt.text)]
    gold = {fact.number: fact.answer for fact in case.facts}
    seen = {fact.number for fact in case.facts if any(_pair_states(pair, case, fact, gold) for pair in pairs)}
    found = case.conclude(case.values(seen))
    answer = agents.mistake(prompt, found or "") if errs else found or "I don't know"
    return {"thought": "What the pairs say of each sub-question is put together.", "answer": answer[:200]}


def _pair_states(pair: str, case: Case, fact: Fact, gold: Mapping[int, str]) -> bool:
    if any(evidence in pair for evidence in fact.evidence):
        return True
    subject = _entities(case, fact, gold)[0]
    asks = _key(case.ask(fact, gold))
    return squeezed(fact.answer) in pair and (asks in pair or bool(fact.relation and squeezed(subject) in pair))


def _read(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    """The facts that stand in a passage, in the words that they will be asked in, and a pair for each sentence."""
    [passage] = prompt.passages[:1] or [Passage("1", "", prompt.text, ())]
    pairs = []
    for case, fact in agents.facts_in(passage.text) if not errs else ():
        gold = {row.number: row.answer for row in case.facts}
        spelled = re.search(r"\s*".join(map(re.escape, fact.answer.split())), passage.text, re.IGNORECASE)
        pairs.append(
            {"question": case.ask(fact, gold), "answer": spelled[0] if spelled else _stating(passage.text, fact)}
        )
    sentences = re.split(r"(?<=[.!?]) +", passage.text)
    for number, sentence in enumerate(sentences[:6]):
        asks = f"What is {passage.title}?" if number == 0 else f"What else is said of {passage.title} ({number})?"
        pairs.append({"question": asks[:200], "answer": sentence[:300]})
    kept = list({(pair["question"], pair["answer"]): pair for pair in pairs}.values())[:16]
    facts = [f"{pair['question']} {pair['answer']}"[:300] for pair in kept]
    return {"atomic_facts": facts, "qa": kept}


def _stating(text: str, fact: Fact) -> str:
    sentences = re.split(r"(?<=[.!?]) +", text)
    return next((row for row in sentences if squeezed(row) in fact.evidence), sentences[0])[:300]


# Judging an evaluation


def _correct(agents: PerfectAgents, prompt: Prompt, errs: bool) -> Reply:
    said = re.search(r"^Answer given: (.*)$", prompt.text, re.MULTILINE)
    right = re.search(r"^Right answer: (.*)$", prompt.text, re.MULTILINE)
    good = bool(said and right and containment(said[1], right[1].split(" / ")))
    return {"correct": "yes" if good != errs else "no"}


ROLES: dict[str, Role] = {
    "no_retrieval/generator": _answer,
    "standard_rag/generator": _answer,
    "self_ask/asker": _ask_on,
    "self_ask/generator": _answer,
    "ircot/reasoner": _reason,
    "ircot/generator": _think_and_answer,
    "iter_retgen/drafter": _think_and_answer,
    "react/agent": _take_turn,
    "adaptive_rag/router": _complexity,
    "adaptive_rag/generator": _answer,
    "adaptive_rag/single_step_reader": _answer,
    "adaptive_rag/reasoner": _reason,
    "adaptive_rag/multi_step_reader": _think_and_answer,
    "prism/analyzer": _subquestions,
    "prism/guess": _select,
    "prism/selector": _select,
    "prism/setwise": _select,
    "prism/adder": _add,
    "prism/generator": _answer,
    "prunerag/decomposer": _expand,
    "prunerag/extractor": _name_entities,
    "prunerag/summarizer": _summarise,
    "prunerag/aggregator": _aggregate,
    "hanrag/router": _route,
    "hanrag/decomposer": _decompose,
    "hanrag/refiner": _next_question,
    "hanrag/relevance_discriminator": _relevant,
    "hanrag/ending_discriminator": _sufficient,
    "hanrag/generator": _answer,
    "hanrag/aggregator": _answer_from(_HOP),
    "hanrag/synthesizer": _answer_from(_HOP),
    "parrag/planner": _plan,
    "parrag/actor": _act,
    "parrag/reviser": _act,
    "parrag/accuracy_judge": _score,
    "parrag/attribution_judge": _attribute,
    "parrag/refiner": _refine,
    "parrag/generator": _answer_from(_STEP),
    "compactrag/decomposer": _graph,
    "compactrag/generator": _synthesise,
    "compactrag_reader/pair_writer": _read,
    "compactrag_reader/coverage_repairer": _read,
    "judge/correctness_judge": _correct,
}
"""By method and node."""
