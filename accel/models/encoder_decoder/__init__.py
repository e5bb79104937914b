"""The encoder-decoder Transformer, with a FastTrees block or a chart."""
