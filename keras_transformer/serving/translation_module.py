"""Text to text as one TensorFlow graph."""

from keras_transformer.serving.graph_tokenizer import graph_tokenizer


def translation_module(translator):
    """Returns a `tf.Module` that holds a translator's weights and its `translate` as a graph.

    Args:
        translator: `Translator`, on the TensorFlow backend.
    """
    import tensorflow as tf

    tokenizer = graph_tokenizer(translator.tokenizer)
    module = tf.Module()
    # TensorFlow's own variables: Keras's would be restored in Python, but not by the C library.
    module.weights = [variable.value for variable in translator.model.variables]
    module.tokenizer = tokenizer.resource

    def translate(text):
        translation, score = translate_text(translator, tokenizer, text)
        return {"translation": translation, "score": score}

    module.translate = tf.function(
        translate,
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    )
    return module


def translate_text(translator, tokenizer, text):
    """Returns translations, string (B,), and scores, float32 (B,), of text, string (B,).

    As in `Translator.translate`, sentences whose sources have one padded width are searched
    together, one width after the other.
    """
    import tensorflow as tf

    widths = tf.constant(translator.source_widths)
    source, has_pieces = source_ids(translator, tokenizer.tokenize(text))
    width_number = tf.searchsorted(widths, tf.cast(source.row_lengths(), "int32"))
    wanted, _ = tf.unique(tf.boolean_mask(width_number, has_pieces))

    def translate_width(turn, translation, score):
        here = tf.where(has_pieces & (width_number == wanted[turn]))  # (n, 1)
        ids = tf.gather(source, here[:, 0]).to_tensor(translator.tokenizer.pad_id)
        ids = tf.pad(
            ids,
            [[0, 0], [0, widths[wanted[turn]] - tf.shape(ids)[1]]],
            constant_values=translator.tokenizer.pad_id,
        )
        found = translator.search.best_only().decode(translator.model, ids)
        best = tf.RaggedTensor.from_tensor(found.tokens[:, 0], lengths=found.lengths[:, 0])
        texts = tokenizer.detokenize(best)
        return (
            turn + 1,
            tf.tensor_scatter_nd_update(translation, here, texts),
            tf.tensor_scatter_nd_update(score, here, found.scores[:, 0]),
        )

    _, translation, score = tf.while_loop(
        lambda turn, *_: turn < tf.size(wanted),
        translate_width,
        (tf.constant(0), tf.fill(tf.shape(text), ""), tf.zeros(tf.shape(text))),
        parallel_iterations=1,
    )
    return translation, score


def source_ids(translator, ids):
    """Returns sources, ragged int32 (B, None), and which have pieces, bool (B,)."""
    import tensorflow as tf

    has_pieces = ids.row_lengths() > 0
    ids = ids[:, : translator.max_source_length - 1]
    end = tf.fill([ids.nrows(), 1], translator.tokenizer.end_id)
    return tf.concat([ids, end], axis=1), has_pieces
