"""SQL statements about branches, tags, merges and contents: their grammar, and what carries them out."""

from nessie_ops.sql.parsing import SqlSyntaxError, is_statement, parse
from nessie_ops.sql.session import Result, SqlSession

__all__ = ["Result", "SqlSession", "SqlSyntaxError", "is_statement", "parse"]
