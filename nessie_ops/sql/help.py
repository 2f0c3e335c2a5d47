"""The syntax of each statement, for people.  Words in capitals are keywords; `ref` is a branch or tag."""

from __future__ import annotations

_AT = "[AT [COMMIT | TIMESTAMP] value]"
_ROWS = "[FILTER 'CEL' | [STARTING WITH text] [CONTAINING text]]"

SYNTAX = {
    "CREATE BRANCH": f"CREATE (BRANCH | TAG) [IF NOT EXISTS] name [IN catalog] [FROM ref] {_AT}",
    "DROP BRANCH": "DROP (BRANCH | TAG) [IF EXISTS] name [IN catalog]",
    "ASSIGN BRANCH": f"ASSIGN (BRANCH | TAG) [name] [TO ref {_AT}] [IN catalog]",
    "USE": f"USE (BRANCH | TAG | REFERENCE) ref {_AT} [IN catalog]",
    "SHOW REFERENCE": f"SHOW REFERENCE [ref] {_AT} [IN catalog]",
    "LIST REFERENCES": f"LIST REFERENCES {_ROWS} [IN catalog]",
    "SHOW LOG": f"SHOW LOG [[ON [BRANCH | TAG]] ref] {_AT} [LIMIT n] [IN catalog]",
    "SHOW DIFF": f"SHOW DIFF [FROM ref {_AT}] [TO ref {_AT}]\n    [LIMIT n] [IN catalog]",
    "START TRANSACTION": "START TRANSACTION [ISOLATION LEVEL (READ COMMITTED | REPEATED READ | SERIALIZABLE)]\n"
    "    [ON branch] [IN catalog]",
    "COMMIT": "COMMIT [TRANSACTION] [MESSAGE 'text']",
    "ROLLBACK": "ROLLBACK [TRANSACTION]",
    "MERGE BRANCH": f"MERGE [DRY [RUN]] (BRANCH | TAG) [ref] {_AT} [INTO branch] [IN catalog]\n"
    "    [BEHAVIOR (NORMAL | FORCE | DROP)] [BEHAVIORS key = (NORMAL | FORCE | DROP) [AND ...]]\n"
    "  or, instead of behaviors, for keys that both sides changed:\n"
    "    ON CONFLICT (OVERWRITE | DISCARD | CANCEL) [EXCEPT (OVERWRITE | DISCARD | CANCEL) key [, ...]] ...",
    "CREATE NAMESPACE": "CREATE NAMESPACE key [ON branch] [SET name = value [AND ...]]",
    "ALTER NAMESPACE": "ALTER NAMESPACE key [ON branch] [SET name = value [AND ...]] [REMOVE name [AND ...]]",
    "DROP TABLE": "DROP (TABLE | VIEW | NAMESPACE) key [ON branch]",
    "LIST CONTENTS": f"LIST CONTENTS [ON ref] {_AT} {_ROWS}",
    "SHOW TABLE": f"SHOW (TABLE | VIEW | NAMESPACE) key [ON ref] {_AT}",
    "REVERT CONTENT": "REVERT CONTENT [DRY] OF key [AND ...] [ON branch]\n"
    f"    TO STATE ([ON ref] {_AT}) [ALLOW DELETES]",
}

NOTES = """\
Statements end at the end of the line or at `;`.  Names are bare (letters, digits, _ - . : /) or in quotes: " ' or `.
The value of AT is a hash, steps such as '~2', or a time such as '2026-01-31T12:00:00Z'.  Comments: -- // /* */
In the shell besides: CONNECT TO uri [ON ref], HELP [statement], EXIT."""


def explain(words: str = "") -> str:
    """The syntax of the statements that begin with `words`, or of all when none does."""
    wanted = " ".join(words.upper().split())
    found = [text for name, text in SYNTAX.items() if wanted and (name.startswith(wanted) or f" {wanted}" in name)]
    return "\n".join(found) if found else "\n".join([*SYNTAX.values(), "", NOTES])
