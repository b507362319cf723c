"""The methods of `AsyncOpenIntentClient`, by subject. Their twins in `sync` differ only by what need not be awaited."""
