"""Plans that reproduce each documented lock failure, and plans that show its cure under the same fault."""
