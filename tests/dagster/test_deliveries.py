"""Reading deliveries: types, nulls, zips, and errors that name the file and what is wrong."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from assets.transforms.deliveries import count_rows, fingerprint, read_delivery
from assets.transforms.months import Month
from assets.transforms.tables import AIRLINES, DELIVERED, FLIGHTS, PLANES, WEATHER
from nessie_ops.errors import BadRequest
from resources.deliveries import Deliveries, packaged_deliveries

ROWS_OF_2013 = {"bronze.flights": 336_776, "bronze.weather": 26_115, "bronze.planes": 3_322, "bronze.airports": 1_458,
                "bronze.airlines": 16}  # fmt: skip


def test_the_packaged_deliveries_are_read_whole_with_the_declared_types() -> None:
    folder = Deliveries().folder
    assert folder == packaged_deliveries()
    for table in DELIVERED:
        rows = read_delivery(folder, table)
        assert rows.num_rows == count_rows(folder, table) == ROWS_OF_2013[table.name]
        assert tuple(rows.column_names) == table.names
        assert rows.schema.field(0).type in (pa.int32(), pa.string())
    flights = read_delivery(folder, FLIGHTS)
    assert flights.column("dep_time").null_count == 8_255
    assert flights.column("tailnum").null_count == 2_512
    assert flights.schema.field("time_hour").type == pa.timestamp("us", tz="UTC")


def test_months_add_up_to_the_year() -> None:
    folder = packaged_deliveries()
    months = [Month(2013, number) for number in range(1, 13)]
    assert sum(count_rows(folder, WEATHER, month) for month in months) == ROWS_OF_2013["bronze.weather"]
    february = read_delivery(folder, FLIGHTS, months[1])
    assert february.num_rows == count_rows(folder, FLIGHTS, months[1]) == 24_951
    assert february.column("year").num_chunks == 1  # Spark stops reading at an empty one


def test_a_folder_is_chosen_by_configuration_then_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, other = tmp_path / "given", tmp_path / "other"
    given.mkdir(), other.mkdir()
    monkeypatch.setenv("NESSIE_OPS_SOURCE", str(other))
    assert Deliveries().folder == other
    assert Deliveries(source_dir=str(given)).folder == given
    with pytest.raises(BadRequest, match=r"source_dir: .*missing is not a folder"):
        _ = Deliveries(source_dir=str(tmp_path / "missing")).folder


def _write(folder: Path, text: str) -> None:
    (folder / "airlines.csv").write_text(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, r"source_dir: .* has neither airlines\.csv nor airlines\.csv\.zip"),
        (lambda folder: _write(folder, "carrier\nAA\n"), r"airlines\.csv: .*name"),
        (lambda folder: _write(folder, "carrier,name\nAA\n"), r"airlines\.csv: .*Expected 2 columns"),
        (lambda folder: _write(folder, ""), r"airlines\.csv: .*[Ee]mpty"),
    ],
    ids=["no file", "no column", "short row", "empty"],
)
def test_a_delivery_that_cannot_be_read_is_named(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    make(tmp_path)
    with pytest.raises(BadRequest, match=message):
        read_delivery(tmp_path, AIRLINES)


def test_a_value_of_another_type_is_an_error_that_names_the_column(tmp_path: Path) -> None:
    header = ",".join(PLANES.names)
    (tmp_path / "planes.csv").write_text(f"{header}\nN1,old,x,x,x,2,55,NA,x\n")
    with pytest.raises(BadRequest, match=r"planes\.csv: .*column.*old"):
        read_delivery(tmp_path, PLANES)


def test_a_zip_must_hold_one_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "airlines.csv.zip", "w") as archive:
        archive.writestr("a.csv", "carrier,name\nAA,American\n")
    assert read_delivery(tmp_path, AIRLINES).to_pylist() == [{"carrier": "AA", "name": "American"}]
    before = fingerprint(tmp_path, AIRLINES)
    with zipfile.ZipFile(tmp_path / "airlines.csv.zip", "a") as archive:
        archive.writestr("b.csv", "carrier,name\n")
    with pytest.raises(BadRequest, match=r"airlines\.csv\.zip: must hold exactly one \.csv file, holds 2"):
        read_delivery(tmp_path, AIRLINES)
    (tmp_path / "airlines.csv").write_text("carrier,name\nAA,American\n")  # a plain file comes first
    assert fingerprint(tmp_path, AIRLINES) == before
    _write(tmp_path, "carrier,name\nAA,Other\n")
    assert fingerprint(tmp_path, AIRLINES) != before


@pytest.mark.parametrize("text", ["2013-1", "2013-13", "January", "", "2013-01-01", "2012-12", "2014-01"])
def test_a_month_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^month: "):
        Month.parse(text)


def test_months_know_their_last_day() -> None:
    assert [Month.parse(f"2013-{n:02d}").last_day for n in (1, 2, 4)] == [31, 28, 30]
    assert str(Month.parse("2013-02")) == "2013-02"
