"""Cells of a paper's tables that cannot be right are named, all at once, when parameters are read."""

import pytest
from plans import PARAMS, copied, refused

from vsepp.base.errors import VseppError
from vsepp.report.published import read_published

HEADING = "table,row,kind,protocol,i2t_r1,i2t_medr,rsum,i2t_r1_sd,note"
GOOD = "1,1.1,quoted,1K,43.4,2,386.9,0.3,"


def written(folder, *lines, encoding="utf-8"):
    path = folder / "published.csv"
    path.write_bytes("\n".join([HEADING, *lines, ""]).encode(encoding))
    return path


def test_cells_may_be_empty_and_ranks_halves(tmp_path):
    published = read_published(
        written(tmp_path, GOOD, "1,1.2,trained,1K,,1.5,,,a note", "1,1.3,trained,,0,1,600,0,")
    )
    assert published["table1", "1.2"]["i2t_medr"] == "1.5" and published["", "1.1"]["i2t_r1"] == "43.4"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        *(
            (
                GOOD.replace("43.4", cell),
                f"i2t_r1: got {cell!r}; expected a percentage, with a point, such as 43.4",
            )
            for cell in ("nan", "inf", "-43.4", "143.4", "4e1", "٤٣", "+43.4", " 43.4", "forty")
        ),
        (GOOD.replace("43.4", '"43,4"'), "i2t_r1: got '43,4'; expected a percentage"),
        (GOOD.replace(",2,", ",0,"), "i2t_medr: got '0'; expected a rank from 1"),
        (GOOD.replace("386.9", "601"), "rsum: got '601'; expected a sum of six percentages"),
        (GOOD.replace("0.3", "-0.3"), "i2t_r1_sd: got '-0.3'; expected a standard deviation in points"),
        (GOOD.replace("quoted", "guessed"), "kind: got 'guessed'; expected trained or quoted"),
        ("1,1.1,quoted,1K", "fewer cells than the heading has columns"),
        (f"{GOOD},", "more cells than the heading has columns"),
    ],
)
def test_a_cell_that_no_table_can_hold_is_named(tmp_path, row, said):
    with pytest.raises(VseppError) as caught:
        read_published(written(tmp_path, GOOD.replace("1.1", "1.0"), row))
    assert "published.csv: rows that cannot be right (1 in all): line 3, row '1.1'" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "encoding", "said"),
    [
        ([GOOD], "utf-16", "is UTF-16 text"),
        (["1,1.1,quoted,1K,43.4,2,,,Größe"], "latin-1", "not UTF-8: line 2"),
        (
            ['1,1.1,quoted,1K,43.4,2,,,"no end'],
            "utf-8",
            "unexpected end of data; look for a quote that is not closed",
        ),
    ],
)
def test_a_file_that_is_no_csv_of_utf_8_is_named(tmp_path, lines, encoding, said):
    with pytest.raises(VseppError, match=r"published\.csv: ") as caught:
        read_published(written(tmp_path, *lines, encoding=encoding))
    assert said in str(caught.value)


def test_all_mistakes_are_told_when_parameters_are_read(tmp_path):
    params = copied(tmp_path)
    file = params / "papers/vsepp/published.csv"
    file.write_text(file.read_text().replace("43.4", "nan", 1).replace("46.7", "467", 1))
    claims = params / "papers/vsepp/claims.yaml"
    claims.write_text(claims.read_text().replace("place:", "plaice:", 1))
    said = refused(params)
    for mistake in ("'nan'; expected a percentage", "'467'; expected a percentage", "plaice: unknown key"):
        assert mistake in said
    assert read_published(PARAMS / "papers/vsepp/published.csv")["table1", "1.1"]["i2t_r1"] == "43.4"


RECALLS = "table,row,kind,i2t_r1,i2t_r5,i2t_r10,t2i_r1,t2i_r5,t2i_r10,rsum,note"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("80,70,90,1,2,3,246,", "i2t_r5"),
        ("10,20,30,9,8,30,107,", "t2i_r5"),
        ("10,20,30,10,20,30,130,", "rsum"),
        ("10,20,30,10,20,30,120,a\0b", "NUL"),
        ("10,20,30,10,20,30,120,a\x1b[2Jb", "control"),
    ],
)
def test_recalls_rise_with_k_and_add_up(tmp_path, cells, said):
    path = tmp_path / "published.csv"
    path.write_text(f"{RECALLS}\n1,1.1,quoted,{cells}\n")
    with pytest.raises(VseppError, match=said):
        read_published(path)
    path.write_text(f'{RECALLS}\n1,1.1,quoted,10,20,15,10,20,30,120.3,"i2t_r10: [sic] printed so"\n')
    assert read_published(path)


def test_a_column_that_is_there_twice_is_named(tmp_path):
    path = tmp_path / "published.csv"
    path.write_text(f"{RECALLS},note\n1,1.1,quoted,10,20,30,10,20,30,120,a,b\n")
    with pytest.raises(VseppError, match="twice: note"):
        read_published(path)
