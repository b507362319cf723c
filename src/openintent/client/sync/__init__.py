"""The methods of `OpenIntentClient`, by subject. Their twins in `awaited` differ only by what is awaited."""
