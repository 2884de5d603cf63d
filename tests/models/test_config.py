"""What a configuration says, what follows from it and what it refuses."""

import pytest

from harness.models.config import EncoderConfig, round_to


def test_head_size_frees_the_hidden_size_from_the_number_of_heads():
    config = EncoderConfig(hidden_size=512, num_attention_heads=6, head_size=64)
    assert (config.head_width, config.attention_width) == (64, 384)
    plain = EncoderConfig()
    assert (plain.head_width, plain.attention_width) == (64, plain.hidden_size)


@pytest.mark.parametrize(("hidden", "width"), [(768, 128), (256, 40), (128, 24), (1024, 168), (12, 8)])
def test_a_sixth_of_the_hidden_size_in_multiples_of_8(hidden, width):
    assert EncoderConfig(hidden_size=hidden, num_attention_heads=1, embedding_fraction=1 / 6).embedding_width == width


@pytest.mark.parametrize(("intermediate", "width"), [(3072, 2048), (1024, 680), (512, 344), (4096, 2728)])
def test_gated_width_is_two_thirds_in_multiples_of_8(intermediate, width):
    assert EncoderConfig(intermediate_size=intermediate, gated_feed_forward=True).feed_forward_width == width
    assert EncoderConfig(intermediate_size=intermediate).feed_forward_width == intermediate


def test_explicit_sizes_switch_the_rules_off():
    config = EncoderConfig(embedding_size=33, embedding_fraction=1 / 6, feed_forward_size=77, gated_feed_forward=True)
    assert (config.embedding_width, config.feed_forward_width) == (33, 77)
    assert EncoderConfig(feed_forward_size=77).feed_forward_width == 77


@pytest.mark.parametrize(("value", "rounded"), [(0.1, 8), (8, 8), (11.9, 8), (12, 16), (42.7, 40), (128, 128)])
def test_round_to_takes_the_nearest_multiple_and_at_least_one(value, rounded):
    assert round_to(value, 8) == rounded


@pytest.mark.long
def test_layers_run_the_groups_of_published_albert():
    """Over all shapes of up to 48 layers; integers alone differ for 13 of them, of which 18 layers in 14 groups are one."""
    shapes = [(depth, groups) for depth in range(1, 49) for groups in range(1, depth + 1)]
    differing = []
    for depth, groups in shapes:
        config = EncoderConfig(num_hidden_layers=depth, num_hidden_groups=groups)
        order = [config.group_of(layer) for layer in range(depth)]
        assert order == [int(i / (depth / groups)) for i in range(depth)]  # as AlbertModel of transformers
        assert sorted(set(order)) == list(range(groups))
        if order != [i * groups // depth for i in range(depth)]:
            differing.append((depth, groups))
    assert len(differing) == 13
    assert (18, 14) in differing
