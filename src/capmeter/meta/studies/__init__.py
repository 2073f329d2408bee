"""Studies of metrics on data that the user names: degradation, grammar, critical failures, ties."""
