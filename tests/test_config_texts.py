"""`__config__`: what the library runs on, as text that programs search."""

import dynajit as dj


def test_versions_are_named_and_no_part_of_pytorchs_build() -> None:
    text = dj.__config__.show()

    assert dj.version.dynajit in text and "NumPy" in text
    assert text.endswith("\n")
    assert "USE_MKL" not in text and "CUDA" not in text


def test_the_number_of_threads_is_named() -> None:
    assert f"dynajit.get_num_threads() : {dj.get_num_threads()}\n" in dj.__config__.parallel_info()
