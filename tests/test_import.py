import json

import keras
from tiny_translators import run_python


def test_import_is_cheap_and_loads_no_other_framework():
    code = """if True:
        import json, sys, time
        started = time.process_time()
        import keras
        before, between = set(sys.modules), time.process_time()
        import keras_transformer
        seconds = between - started, time.process_time() - between
        loaded = {name.split(".")[0] for name in set(sys.modules) - before}
        loaded = sorted(loaded - sys.stdlib_module_names)
        print(json.dumps([seconds, loaded, "tensorflow" in sys.modules]))
        keras_transformer.Translator, keras_transformer.layers.MultiHeadAttention
        keras_transformer.models.Transformer, keras_transformer.decoding.BeamSearch
        keras_transformer.training.NoamSchedule, keras_transformer.text.SubwordTokenizer
        keras_transformer.evaluation.bleu
    """
    seconds, loaded, has_tensorflow = json.loads(run_python(code))
    assert loaded == ["keras_transformer"]
    assert has_tensorflow == (keras.config.backend() == "tensorflow")
    # Of processor time; on a busy machine everything takes longer, Keras too.
    assert seconds[1] < max(0.3, 0.15 * seconds[0])
