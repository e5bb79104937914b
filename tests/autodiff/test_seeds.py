import numpy as np

from accel.autodiff.seeds import mix, mix_all


def test_streams_of_a_seed_are_splitmix64() -> None:
    """These are the first numbers that the published generator draws from seed 0."""
    assert [mix(0, i) for i in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_all_seeds_are_those_of_each() -> None:
    for seed in (0, 7, 2**64 - 1):
        assert mix_all(seed, np.arange(-1, 40)).tolist() == [mix(seed, number) for number in range(-1, 40)]
