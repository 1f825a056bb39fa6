from __future__ import annotations

import json
import warnings

from confu_demo.ui.json_html import JsonHTML


def test_a_value_is_sent_as_one_string_that_holds_the_same_data():
    value = {"text": "</script><script>x</script>", "list": [1, None, "`${1}`"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # gradio warns of script elements in values
        sent = JsonHTML(value=value).postprocess(value)
    assert isinstance(sent, str)
    assert "<" not in sent
    assert json.loads(sent) == value
