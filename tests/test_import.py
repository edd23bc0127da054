import json

import keras
from tiny_translators import run_python


def test_import_loads_no_other_framework():
    code = """if True:
        import json, sys
        import keras
        before = set(sys.modules)
        import keras_transformer
        loaded = {name.split(".")[0] for name in set(sys.modules) - before}
        loaded = sorted(loaded - sys.stdlib_module_names)
        print(json.dumps([loaded, "tensorflow" in sys.modules]))
        keras_transformer.Translator, keras_transformer.layers.MultiHeadAttention
        keras_transformer.models.Transformer, keras_transformer.decoding.BeamSearch
        keras_transformer.training.NoamSchedule, keras_transformer.text.SubwordTokenizer
        keras_transformer.evaluation.bleu
    """
    loaded, has_tensorflow = json.loads(run_python(code))
    assert loaded == ["keras_transformer"]
    assert has_tensorflow == (keras.config.backend() == "tensorflow")
