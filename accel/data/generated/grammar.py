"""Generated English: sentences with agreement, relative clauses, coordination and garden paths, of known entropy.

ENGLISH is ambiguous locally and never globally: "the horse raced past the barn" may continue with "fell", and "the girl
knows the dog" with "sleeps", but a whole sentence has one tree. So log p of a sentence is log p of its tree, and the
exact entropy of the grammar bounds the perplexity of every model from below. Four rules ensure this: a noun has at most
one modifier, a prepositional phrase holds a plain noun phrase, coordinated phrases are plain, and a reduced relative
clause always belongs to a subject. Sentences that stack such modifiers are held out (CONSTRUCTIONS), as a test of
generalisation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from accel.data.generated.pcfg import NUMBERS, parse_grammar
from refimpl.trees import Tree, spans, tree_from_actions, words

LEXICON = """
det#      the/the a/some every/these this/many
noun#     dog/dogs boy/boys girl/girls cat/cats king/kings teacher/teachers farmer/farmers horse/horses barn/barns
adj       young small tall quiet
name      Mary John Kim
he        he she
they      they
him       him her them
prep      near past behind beside with
sleeps#   sleeps/sleep sings/sing waits/wait smiles/smile
chases#   chases/chase sees/see likes/like hears/hear follows/follow
knows#    knows/know believes/believe remembers/remember suspects/suspect
raced     raced walked marched pushed
fell      fell stumbled vanished cried
that      that
and       and
stop      .
"""

RULES = """
S               86  NP|subject#  VP|main#  stop
S               14  S|plain  and  S|plain  stop
S|plain          1  NP|clause#  VP|clause#

NP|plain#       80  det#  noun#
NP|plain#       20  det#  adj  noun#
NP|clause#      44  @NP|plain#
NP|clause#      16  NP|plain#  PP
NP|clause#       8  NP|plain#  SBAR|subject#
NP|clause#       7  NP|plain#  SBAR|object
NP|clause#       5  NP|plain#  SBAR|reduced
NP|clause#       5  NP|plain#  VP|reduced
NP|clause.sg     8  name
NP|clause.sg     7  he
NP|clause.pl    15  they
NP|subject#     92  @NP|clause#
NP|subject.pl    8  NP|short  and  NP|short
NP|short         1  det#  noun#
NP|inner        88  @NP|plain#
NP|inner        12  name
NP|gapped#      75  @NP|plain#
NP|gapped.sg    25  he
NP|gapped.pl    25  they
NP|object       50  @NP|plain#
NP|object       14  NP|plain#  PP
NP|object        9  NP|plain#  SBAR|subject#
NP|object        8  NP|plain#  SBAR|object
NP|object        7  NP|short  and  NP|short
NP|object        6  name
NP|object        6  him

PP               1  prep  NP|inner
SBAR|subject#    1  WHNP  S|subject#
SBAR|object      1  WHNP  S|object
SBAR|reduced     1  S|object
WHNP             1  that
S|subject#       1  VP|relative#
S|object         1  NP|gapped#  VP|gap#
SBAR|that        1  that  S|plain
SBAR|bare        1  S|plain

VP|relative#     3  sleeps#
VP|relative#     2  sleeps#  PP
VP|relative#     5  chases#  NP|inner
VP|gap#          1  chases#
VP|reduced       1  raced  PP
VP|clause#      18  sleeps#
VP|clause#      10  sleeps#  PP
VP|clause#      32  chases#  NP|object
VP|clause#       8  knows#  NP|object
VP|clause#       6  knows#  SBAR|that
VP|clause#       8  knows#  SBAR|bare
VP|clause#      10  raced  PP
VP|clause#       3  raced
VP|clause#       5  fell
VP|main#        92  @VP|clause#
VP|main#         8  VP|relative#  and  VP|relative#
"""

CONSTRUCTIONS = {
    "simple": False,
    "preposition": False,
    "subject_relative": False,
    "object_relative": False,
    "reduced_relative": False,
    "garden_path": False,
    "two_prepositions": True,
    "relative_in_preposition": True,
    "preposition_in_subject_relative": True,
    "preposition_in_object_relative": True,
    "relative_in_relative": True,
}
"""Subjects for tests of agreement, and whether ENGLISH never generates them; every attractor has the other number."""

_SUBJECTS = """
NP|simple#                           1  @NP|plain#
NP|preposition#                      1  NP|plain#  PP|plain~
NP|subject_relative#                 1  NP|plain#  SBAR|chasing~
NP|object_relative#                  1  NP|plain#  SBAR|chased~
NP|reduced_relative#                 1  NP|plain#  SBAR|bare_chased~
NP|garden_path#                      1  NP|plain#  VP|raced~
NP|two_prepositions#                 1  NP|plain#  PP|two~
NP|relative_in_preposition#          1  NP|plain#  PP|relative~
NP|preposition_in_subject_relative#  1  NP|plain#  SBAR|chasing_two~
NP|preposition_in_object_relative#   1  NP|plain#  SBAR|chased_by_two~
NP|relative_in_relative#             1  NP|plain#  SBAR|chased_by_chased~

PP|plain#                1  prep  NP|plain#
PP|two#                  1  prep  NP|two#
PP|relative#             1  prep  NP|chased#
NP|two#                  1  NP|plain#  PP|plain#
NP|chased#               1  NP|plain#  SBAR|chased#
VP|raced#                1  raced  PP|plain#
SBAR|chasing#            1  WHNP  S|chasing#
S|chasing#               1  VP|chasing#
VP|chasing#              1  chases~  NP|plain#
SBAR|chasing_two#        1  WHNP  S|chasing_two#
S|chasing_two#           1  VP|chasing_two#
VP|chasing_two#          1  chases~  NP|two#
SBAR|chased#             1  WHNP  S|chased#
SBAR|bare_chased#        1  S|chased#
S|chased#                1  NP|plain#  VP|gap#
SBAR|chased_by_two#      1  WHNP  S|chased_by_two#
S|chased_by_two#         1  NP|two#  VP|gap#
SBAR|chased_by_chased#   1  WHNP  S|chased_by_chased#
S|chased_by_chased#      1  NP|chased#  VP|gap#
"""

Spans = list[tuple[str, int, int]]

ENGLISH = parse_grammar(RULES, LEXICON, "S")


@dataclass(frozen=True)
class MinimalPair:
    """A sentence whose verb agrees, and a verb that does not: word `position`, from 0, is `right`, not `wrong`."""

    construction: str
    tree: Tree
    position: int
    right: str
    wrong: str

    @property
    def wrong_tree(self) -> Tree:
        """The same tree with the wrong verb."""
        sentence = words(self.tree)
        sentence[self.position] = self.wrong
        return tree_over(spans(self.tree), sentence)


def minimal_pairs(construction: str, count: int, seed: int) -> list[MinimalPair]:
    """Return pairs of one of the CONSTRUCTIONS, half of them with a singular subject, on average.

    Examples
    --------
    >>> [pair] = minimal_pairs("two_prepositions", 1, seed=3)
    >>> " ".join(words(pair.tree)), pair.right, pair.wrong
    ('this horse beside many young horses near the dogs hears the dogs .', 'hears', 'hear')
    """
    if construction not in CONSTRUCTIONS:
        raise ValueError(f"unknown construction {construction!r}: choose one of {', '.join(CONSTRUCTIONS)}")
    sentence = f"S|test 1 NP|{construction}# VP|relative# stop"
    grammar = parse_grammar(RULES + _SUBJECTS + sentence, LEXICON, "S|test")
    pairs = []
    for tree in grammar.sample(count, seed):
        subject = tree.children[0]
        assert isinstance(subject, Tree)
        position = len(words(subject))
        verb = words(tree)[position]
        pairs.append(MinimalPair(construction, tree, position, verb, _OTHER_NUMBER[verb]))
    return pairs


def _other_number() -> dict[str, str]:
    """Return every verb that agrees, with its form for the other number."""
    forms_of = {}
    for verb in ("sleeps", "chases", "knows"):
        for number, other_number in NUMBERS.items():
            forms = zip(ENGLISH.lexicon[f"{verb}.{number}"], ENGLISH.lexicon[f"{verb}.{other_number}"], strict=True)
            forms_of.update({form: different for (_, form), (_, different) in forms})
    return forms_of


_OTHER_NUMBER = _other_number()


def proposals(tree: Tree, count: int, seed: int, labels: Iterable[str] = ("S", "NP", "VP", "PP", "SBAR")) -> list[Tree]:
    """Return up to `count` different trees over the same words; `tree` is one of them, at a random place.

    The others differ from it by one to three small changes: a constituent gets another label, is removed, is added, or
    begins or ends one word later or earlier.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}: the tree itself is one of the proposals")
    rng = np.random.Generator(np.random.Philox(seed))
    sentence, pool = words(tree), sorted({label for label, _, _ in spans(tree)} | set(labels))
    trees = {tree: None}
    for _ in range(50 * count):
        if len(trees) >= count:
            break
        constituents = spans(tree)
        for _ in range(rng.integers(1, 4)):
            constituents = _change(constituents, len(sentence), pool, rng)
        trees[tree_over(constituents, sentence)] = None
    distinct = list(trees)
    return [distinct[i] for i in rng.permutation(len(distinct))]


def _change(constituents: Spans, n_words: int, labels: list[str], rng: np.random.Generator) -> Spans:
    """Return the constituents with one change.

    They are unchanged if a span would then cross another or leave the sentence, or if the root would go or move.
    """
    number = int(rng.integers(len(constituents)))
    label, i, j = constituents[number]
    rest = constituents[:number] + constituents[number + 1 :]
    new_label = str(rng.choice(labels))
    change = rng.integers(4)
    if change == 0:
        return [*constituents[:number], (new_label, i, j), *constituents[number + 1 :]]
    if change == 1:
        i, j = sorted(int(x) for x in rng.integers(n_words, size=2))
        label, number, rest = new_label, 0, constituents
    elif number == 0:
        return constituents
    elif change == 2:
        return rest
    else:
        end, step = rng.integers(2), int(rng.choice([-1, 1]))
        i, j = (i + step, j) if end == 0 else (i, j + step)
    crosses = any(a < i <= b < j or i < a <= j < b for _, a, b in rest)
    if not 0 <= i <= j < n_words or crosses:
        return constituents
    return sorted([*rest, (label, i, j)], key=lambda span: (span[1], -span[2]))


def tree_over(constituents: Spans, sentence: list[str]) -> Tree:
    """Return the tree of a sentence and its constituents, given in the order in which they open.

    This is the inverse of `spans` and `words`.
    """
    actions: list[str] = []
    stack: Spans = []
    agenda = list(reversed(constituents))
    for position, word in enumerate(sentence):
        while agenda and agenda[-1][1] == position:
            stack.append(agenda.pop())
            actions.append(f"({stack[-1][0]}")
        actions.append(word)
        while stack and stack[-1][2] == position:
            actions.append(f"{stack.pop()[0]})")
    return tree_from_actions(actions)
