"""A longest-match lexer: of many patterns the longest match wins; the earlier pattern wins a tie.

Python's ``re`` takes the first alternative that matches, not the longest, so a tokenizer that is defined by longest
match needs its own automaton. The patterns are compiled into one non-deterministic automaton, whose deterministic
states are built on first use. Reading costs one table look-up per character and stays linear for hostile input: a long
look-ahead without a match leaves marks, at which later look-aheads stop.

>>> lexer = Lexer([Rule("word", "[a-z]+"), Rule("number", "{digit}+"), Rule("space", " ")], {"digit": "[0-9]"})
>>> lexer.match(lexer.classify("dogs 2"), 0, set())
Match(end=4, rule=0)

Pattern language: ``|``, ``( )``, ``*``, ``+``, ``?``, ``{m}``, ``{m,n}``, ``[a-z]``, ``[^a-z]`` (``[^]`` is any
character) and ``{name}`` for a named fragment or a named character set. Backslash escapes ``\\n \\r \\t \\f \\v
\\uXXXX \\xXX`` and any symbol. Letters match both cases, except inside square brackets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

Ranges = tuple[tuple[int, int], ...]  # inclusive ranges of code units, sorted, not adjacent
Node = tuple[Any, ...]  # ("set", Ranges) | ("cat", nodes) | ("alt", nodes) | ("rep", node, least, most or None)

LAST_UNIT = 0xFFFF
OTHER_CASES = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}  # dotted and dotless i, Kelvin, long s
PATIENCE = 64  # number of characters read before marks are checked
MARK_EVERY = 16


def parse_ranges(text: str) -> Ranges:
    """Parses ``"41-5A AA"``: hexadecimal code points and ranges of them."""
    range_parts = (range_text.partition("-") for range_text in text.split())
    return merge_ranges((int(low, 16), int(high or low, 16)) for low, _, high in range_parts)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Returns the union of ranges, sorted, adjacent ranges joined."""
    merged_ranges: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged_ranges and low <= merged_ranges[-1][1] + 1:
            merged_ranges[-1] = (merged_ranges[-1][0], max(high, merged_ranges[-1][1]))
        else:
            merged_ranges.append((low, high))
    return tuple(merged_ranges)


def complement(ranges: Ranges) -> Ranges:
    """Returns every code unit outside the ranges."""
    range_edges = [-1, *(edge for low, high in ranges for edge in (low, high)), LAST_UNIT + 1]
    gap_edges = zip(range_edges[::2], range_edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in gap_edges if low + 1 <= high - 1)


@dataclass(frozen=True)
class Rule:
    """A pattern, the meaning of a match, and the look-ahead that must follow it."""

    meaning: str
    pattern: str
    before: str = ""


class Match(NamedTuple):
    """The end of the longest match, and the index of its rule (-1: no match)."""

    end: int
    rule: int


class _State(dict[str, "_State | None"]):
    """One deterministic state: character class -> next state, None where no rule continues; built on first use."""

    __slots__ = ("automaton", "moves", "rule")

    def __init__(self, automaton: _Automaton, moves: list[tuple[int, int]], rule: int) -> None:
        super().__init__()
        self.automaton, self.moves, self.rule = automaton, moves, rule

    def __missing__(self, kind: str) -> _State | None:
        next_state = self[kind] = self.automaton.step(self.moves, kind)
        return next_state

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


Marks = set[tuple[int, _State]]  # positions and states from which nothing more can be matched, of one text


class _Alphabet(dict[int, str]):
    """Code unit -> one character for the class of all code units that no pattern distinguishes, for `str.translate`."""

    def __init__(self) -> None:
        super().__init__()
        self._set_ids: dict[Ranges, int] = {}
        self._kinds: dict[tuple[int, ...], str] = {}
        self.set_ids_of_kind: dict[str, frozenset[int]] = {}

    def add(self, character_set: Ranges) -> int:
        """Returns the id of a character set, which is new or known."""
        return self._set_ids.setdefault(character_set, len(self._set_ids))

    def __missing__(self, unit: int) -> str:
        set_ids = tuple(set_id for ranges, set_id in self._set_ids.items() if _contains(ranges, unit))
        kind = self[unit] = self._kinds.setdefault(set_ids, chr(len(self._kinds) + 1))
        self.set_ids_of_kind[kind] = frozenset(set_ids)
        return kind


def _contains(ranges: Ranges, unit: int) -> bool:
    range_index = bisect_right(ranges, (unit, LAST_UNIT + 1)) - 1
    return range_index >= 0 and unit <= ranges[range_index][1]


class _Parser:
    """Recursive descent over one pattern."""

    ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}  # noqa: RUF012

    def __init__(self, pattern: str, names: Mapping[str, str | Ranges], nodes: dict[str, Node]) -> None:
        self.pattern, self.names, self.at = pattern, names, 0
        self.nodes = nodes  # of the names that were parsed before

    def parse(self) -> Node:
        node = self._alternatives()
        if self.at != len(self.pattern):
            raise ValueError(f"unbalanced pattern at {self.at}: {self.pattern}")
        return node

    def _peek(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def _take(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _alternatives(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._take()
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else ("alt", tuple(branches))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return ("cat", tuple(parts))

    def _repeated(self, node: Node) -> Node:
        while True:
            sign = self._peek()
            if sign in ("*", "+", "?") and sign:
                self._take()
                node = ("rep", node, int(sign == "+"), 1 if sign == "?" else None)
            elif sign == "{" and self.pattern[self.at + 1].isdigit():
                close_position = self.pattern.index("}", self.at)
                least_count, _, most_count = self.pattern[self.at + 1 : close_position].partition(",")
                self.at = close_position + 1
                node = ("rep", node, int(least_count), int(most_count or least_count))
            else:
                return node

    def _atom(self) -> Node:
        sign = self._take()
        if sign == "(":
            node = self._alternatives()
            self._take()
            return node
        if sign == "[":
            return ("set", self._bracket())
        if sign == "{":
            close_position = self.pattern.index("}", self.at)
            pattern_name, self.at = self.pattern[self.at : close_position], close_position + 1
            if pattern_name not in self.nodes:
                value = self.names[pattern_name]
                parsed = _Parser(value, self.names, self.nodes).parse() if isinstance(value, str) else ("set", value)
                self.nodes[pattern_name] = parsed
            return self.nodes[pattern_name]
        if sign == "\\":
            sign = self._escape()
        letter_cases = {sign, sign.lower(), sign.upper(), *OTHER_CASES.get(sign.lower(), "")}
        return ("set", merge_ranges((ord(case), ord(case)) for case in letter_cases))

    def _escape(self) -> str:
        sign = self._take()
        if sign in ("u", "x"):
            digit_count = 4 if sign == "u" else 2
            self.at += digit_count
            return chr(int(self.pattern[self.at - digit_count : self.at], 16))
        return self.ESCAPES.get(sign, sign)

    def _bracket(self) -> Ranges:
        is_negated = self._peek() == "^"
        if is_negated:
            self._take()
        ranges: list[tuple[int, int]] = []
        while (sign := self._take()) != "]":
            low = ord(self._escape() if sign == "\\" else sign)
            high = low
            if self._peek() == "-" and self.pattern[self.at + 1] != "]":
                self._take()
                sign = self._take()
                high = ord(self._escape() if sign == "\\" else sign)
            ranges.append((low, high))
        return complement(merge_ranges(ranges)) if is_negated else merge_ranges(ranges)


class _Automaton:
    """All patterns: states with empty moves and moves on a character set; deterministic states on demand."""

    def __init__(self, nodes: Sequence[Node], alphabet: _Alphabet) -> None:
        self.alphabet = alphabet
        self.empty: list[list[int]] = []
        self.moves: list[list[tuple[int, int]]] = []  # (id of the character set, next state)
        self.accepts: dict[int, int] = {}
        self._states: dict[frozenset[int], _State] = {}
        self._reached: dict[int, frozenset[int]] = {}
        first_state = self._new()
        for rule_number, node in enumerate(nodes):
            start_state = self._new()
            self.empty[first_state].append(start_state)
            self.accepts[self._build(node, start_state)] = rule_number
        self.start = self._state(self._reach(first_state))

    def _new(self) -> int:
        self.empty.append([])
        self.moves.append([])
        return len(self.empty) - 1

    def _build(self, node: Node, state: int) -> int:
        """Adds what matches a node from a state on, and returns the state at its end."""
        node_kind = node[0]
        if node_kind == "cat":
            for part in node[1]:
                state = self._build(part, state)
            return state
        end_state = self._new()
        if node_kind == "set":
            self.moves[state].append((self.alphabet.add(node[1]), end_state))
        elif node_kind == "alt":
            for part in node[1]:
                self.empty[self._build(part, state)].append(end_state)
        else:
            _, part, least_count, most_count = node
            for turn in count():
                if turn >= least_count:
                    self.empty[state].append(end_state)
                if turn == most_count:
                    break
                part_begin = self._new()  # where nothing but the part begins, so that it can be repeated
                self.empty[state].append(part_begin)
                state = self._build(part, part_begin)
                if most_count is None and turn + 1 >= least_count:
                    self.empty[state].extend((part_begin, end_state))
                    break
        return end_state

    def _reach(self, state: int) -> frozenset[int]:
        """Returns the states reached by empty moves that have a move on a character, or accept."""
        if state not in self._reached:
            state_queue, reached = [state], {state}
            while state_queue:
                for next_state in self.empty[state_queue.pop()]:
                    if next_state not in reached:
                        reached.add(next_state)
                        state_queue.append(next_state)
            self._reached[state] = frozenset(at for at in reached if self.moves[at] or at in self.accepts)
        return self._reached[state]

    def _state(self, members: frozenset[int]) -> _State:
        if members not in self._states:
            member_moves = [move for member in members for move in self.moves[member]]
            rule = min((self.accepts[member] for member in members if member in self.accepts), default=-1)
            self._states[members] = _State(self, member_moves, rule)
        return self._states[members]

    def step(self, moves: Iterable[tuple[int, int]], kind: str) -> _State | None:
        """Returns the state that these moves lead to over a character of this class."""
        set_ids = self.alphabet.set_ids_of_kind[kind]
        target_states = {target_state for set_id, target_state in moves if set_id in set_ids}
        return self._state(frozenset().union(*map(self._reach, target_states))) if target_states else None

    def ends(self, kinds: str, start: int, stop: int) -> list[int]:
        """Returns the positions in ``start…stop`` where a match that begins at ``start`` may end, in order."""
        match_ends = []
        state: _State | None = self.start
        for at in range(start, stop + 1):
            assert state is not None
            if state.rule >= 0:
                match_ends.append(at)
            if at == stop or (state := state[kinds[at]]) is None:
                break
        return match_ends


class Lexer:
    """Compiled rules.

    Args:
        rules: the patterns; the earlier one wins between two matches of one length.
        names: named fragments of patterns, and named character sets.
    """

    def __init__(self, rules: Sequence[Rule], names: Mapping[str, str | Ranges]) -> None:
        self.rules = tuple(rules)
        self._alphabet = _Alphabet()
        nodes: dict[str, Node] = {}
        self._pairs = [
            (_Parser(rule.pattern, names, nodes).parse(), _Parser(rule.before, names, nodes).parse()) for rule in rules
        ]
        self._all = _Automaton([("cat", rule_nodes) for rule_nodes in self._pairs], self._alphabet)
        self._split: dict[int, tuple[_Automaton, _Automaton]] = {}

    def classify(self, text: str) -> str:
        """Replaces every character by that of its class, as :meth:`match` expects."""
        return text.translate(self._alphabet)

    def match(self, kinds: str, start: int, marks: Marks) -> Match:
        """Finds the longest match.

        Args:
            kinds: the text, as `classify` returns it.
            start: the position where the match begins.
            marks: empty at first, then the same set for all matches in one text.
        """
        state: _State | None = self._all.start
        end, rule, at = start, -1, start
        for kind in kinds[start : start + PATIENCE]:
            assert state is not None
            if (state := state[kind]) is None:
                break
            at += 1
            if state.rule >= 0:
                end, rule = at, state.rule
        if state is not None and at < len(kinds):
            end, rule = self._continue(kinds, at, state, end, rule, marks)
        if rule >= 0 and self.rules[rule].before:
            if rule not in self._split:
                head, tail = (_Automaton([node], self._alphabet) for node in self._pairs[rule])
                self._split[rule] = head, tail
            head, tail = self._split[rule]
            end = next(cut for cut in reversed(head.ends(kinds, start, end)) if end in tail.ends(kinds, cut, end))
        return Match(end, rule)

    def _continue(self, kinds: str, reached: int, state: _State | None, end: int, rule: int, marks: Marks) -> Match:
        """Reads on after :data:`PATIENCE` characters, up to a mark that an earlier reading without a match left."""
        passed_marks: list[tuple[int, _State]] = []
        for at in range(reached, len(kinds)):
            assert state is not None
            if not at % MARK_EVERY:
                if (at, state) in marks:
                    break
                passed_marks.append((at, state))
            if (state := state[kinds[at]]) is None:
                break
            if state.rule >= 0:
                end, rule = at + 1, state.rule
                passed_marks.clear()
        marks.update(passed_marks)
        return Match(end, rule)
