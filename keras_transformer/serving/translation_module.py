"""Text to text as one TensorFlow graph."""

from keras_transformer.ops.backend import fewest_rows
from keras_transformer.serving.graph_tokenizer import graph_tokenizer
from keras_transformer.translator import BATCH_SIZE


def translation_module(translator, jit_compile=False):
    """Returns a `tf.Module` that holds a translator's weights and its `translate` as a graph.

    Args:
        translator: `Translator`, on the TensorFlow backend.
        jit_compile: bool, whether XLA compiles the search, once a bucket of shapes.
    """
    import tensorflow as tf

    tokenizer = graph_tokenizer(translator.tokenizer)
    module = tf.Module()
    # TensorFlow's own variables: Keras's would be restored in Python, but not by the C library.
    module.weights = [variable.value for variable in translator.model.variables]
    module.tokenizer = tokenizer.resource

    def translate(text):
        translation, score = translate_text(translator, tokenizer, text, jit_compile)
        return {"translation": translation, "score": score}

    module.translate = tf.function(
        translate,
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    )
    return module


def translate_text(translator, tokenizer, text, jit_compile):
    """Returns translations, string (B,), and scores, float32 (B,), of text, string (B,).

    As in `Translator.translate`, sentences whose sources have one padded width are searched
    together, those of like length side by side.
    """
    import tensorflow as tf

    widths = tf.constant(translator.source_widths)
    source, has_pieces = source_ids(translator, tokenizer.tokenize(text))
    lengths = tf.cast(source.row_lengths(), "int32")
    order = tf.argsort(lengths, stable=True)
    order = tf.boolean_mask(order, tf.gather(has_pieces, order))
    width_numbers = tf.searchsorted(widths, tf.gather(lengths, order))  # they do not fall
    places = tf.range(tf.size(order)) - tf.searchsorted(width_numbers, width_numbers)
    starts = tf.cast(tf.where(places % BATCH_SIZE == 0)[:, 0], "int32")
    ends = tf.concat([starts[1:], [tf.size(order)]], axis=0)
    search = search_graph(translator, jit_compile)

    def translate_batch(turn, translation, score):
        here = order[starts[turn] : ends[turn]]  # (n,)
        width = widths[width_numbers[starts[turn]]]
        ids = tf.gather(source, here).to_tensor(translator.tokenizer.pad_id)
        ids = tf.pad(
            ids,
            [[0, 0], [0, width - tf.shape(ids)[1]]],
            constant_values=translator.tokenizer.pad_id,
        )
        found = search(ids)
        best = tf.RaggedTensor.from_tensor(found.tokens[:, 0], lengths=found.lengths[:, 0])
        return (
            turn + 1,
            tf.tensor_scatter_nd_update(translation, here[:, None], tokenizer.detokenize(best)),
            tf.tensor_scatter_nd_update(score, here[:, None], found.scores[:, 0]),
        )

    _, translation, score = tf.while_loop(
        lambda turn, *_: turn < tf.size(starts),
        translate_batch,
        (tf.constant(0), tf.fill(tf.shape(text), ""), tf.zeros(tf.shape(text))),
        parallel_iterations=1,
    )
    return translation, score


def search_graph(translator, jit_compile):
    """Returns the search as a function of int32 (n, S), n at most `BATCH_SIZE`, in a graph."""
    import tensorflow as tf

    def search(ids):
        return translator.search.best_only().decode(translator.model, ids)

    if not jit_compile:
        return search
    compiled = tf.function(search, autograph=False, jit_compile=True)
    buckets = [2**exponent for exponent in range(BATCH_SIZE.bit_length())]
    buckets = [rows for rows in buckets if rows * translator.search.width >= fewest_rows()]

    def search_bucket(ids):
        # XLA compiles for each number of rows: they are filled up by the last, which ends with it.
        count = tf.shape(ids)[0]
        rows = tf.gather(buckets, tf.searchsorted(buckets, [count])[0])
        filled = tf.gather(ids, tf.minimum(tf.range(rows), count - 1))
        found = compiled(filled)
        return type(found)(*(part[:count] for part in found))

    return search_bucket


def source_ids(translator, ids):
    """Returns sources, ragged int32 (B, None), and which have pieces, bool (B,)."""
    import tensorflow as tf

    has_pieces = ids.row_lengths() > 0
    ids = ids[:, : translator.max_source_length - 1]
    end = tf.fill([ids.nrows(), 1], translator.tokenizer.end_id)
    return tf.concat([ids, end], axis=1), has_pieces
