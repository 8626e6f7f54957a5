"""What the card of an exported model has of its run's seeds."""

from trained_models import Models

from vsepp.apps.export import evaluations_of


def test_the_card_has_seeds_in_the_order_of_their_numbers_and_says_which_collapsed(tmp_path):
    models = Models(tmp_path)
    for seed in (10, 2, 0):
        models.add("run", seed=seed, collapsed=seed == 2)
    evaluations = list(evaluations_of(tmp_path / "runs/run/seed-10"))
    assert [(model.seed, model.trouble) for model, *_ in evaluations] == [(0, ""), (2, "collapsed"), (10, "")]
    for _, protocol, intervals in evaluations:
        assert protocol == "5x1K" and intervals["i2t_r1"].low < 41 < intervals["i2t_r1"].high
