"""One data set under two names would have two budgets: names that look alike, and tables that stand in for others."""

import pytest

from noisegate.errors import LedgerError, LedgerWarning, OptionError
from noisegate.ledger.accounts import Kind
from noisegate.ledger.dataset_names import lookalike, mixed_scripts
from noisegate.ledger.hash_chain import next_row
from noisegate.ledger.ledger import Ledger

CAP = {"epsilon": 1.0, "delta": 1e-5}

ALIKE = [
    ("clinic", "Clinic"),
    ("clinic", " clinic"),
    ("clinic", "clinic  "),
    ("the clinic", "the  clinic"),
    ("clinic 2026", "clinic \uff12\uff10\uff12\uff16"),  # full width
    ("office", "o\ufb03ce"),  # a ligature
    ("café", "cafe\u0301"),
    ("clinic", "clini\u0441"),  # Cyrillic es
    ("COPE", "\u0421\u041e\u0420\u0415"),  # Cyrillic all through
    ("HEART", "\u0397\u0395ART"),  # Greek eta and epsilon
    (
        "\u043a\u043b\u0438\u043d\u0438\u043a\u0430",
        "\u041a\u041b\u0418\u041d\u0418\u041a\u0410",
    ),  # a Russian word
    ("straße", "STRASSE"),
    ("clinic", "clinic\ufe0f"),
    ("anno", "ann\u0585"),  # Armenian oh
    ("AVA registry", "AVA registry\u2800"),  # a cell of Braille without a dot
    (
        "AVA registry",
        "AVA registry\u180b",
    ),  # a Mongolian variation selector, and what else is drawn as nothing
    ("AVA registry", "AVA registry\u180f"),
    ("AVA registry", "AVA \U00016fe4registry"),
    ("AVA registry", "\u13aaVA registry"),  # Cherokee, also small
    ("AVA registry", "\uab7aVA registry"),
    ("AVA registry", "\ua4eeVA registry"),  # Lisu
    ("AVA registry", "AVA reg\u0131stry"),  # without its dot
    ("AVA registry", "AVA \u0280egistry"),  # a small capital
    (
        "trial I",
        "trial \u04c0",
    ),  # a Cyrillic palochka, which is drawn like an I, an l and a 1
    ("trial 1", "trial \u04c0"),
    ("modern", "\u043codern".replace("\u043c", "\u217f")),  # a Roman numeral
    ("corner", "co\U000118e3er"),  # one letter drawn like rn
]


@pytest.mark.parametrize(("registered", "new"), ALIKE)
def test_a_name_that_looks_like_another_is_not_registered_and_a_near_miss_is_named(
    ledger, event, registered, new
):
    ledger.register("other", **CAP)
    ledger.register(registered, **CAP)
    with pytest.raises(
        OptionError, match="only by case, blanks or letters that look alike; two names"
    ) as refused:
        ledger.register(new, **CAP)
    assert repr(registered) in str(refused.value)
    for look in (
        ledger.show,
        lambda name: ledger.reserve(
            name, [event()], adjacency="add-remove", purpose="x"
        ),
    ):
        with pytest.raises(
            OptionError, match="is not registered in the ledger, but"
        ) as missed:
            look(new)
        assert f"give {registered!r}" in str(missed.value)
    assert ledger.check() == 2


@pytest.mark.parametrize(
    "names",
    [
        ("clinic-1", "clinic-2"),
        ("ä", "a"),
        ("run1", "runl"),
        ("corner", "comer"),
        ("\u043d", "h"),
        ("a b", "ab"),
    ],
)
def test_other_names_are_other_names(ledger, names):
    for name in names:
        ledger.register(name, **CAP)
    assert ledger.check() == 2
    assert lookalike(names[0], [names[0]]) is None


def test_a_word_of_two_alphabets_is_warned_of(ledger):
    with pytest.warns(LedgerWarning, match=r"several alphabets \(Cyrillic, Latin\)"):
        ledger.register("clini\u0441", **CAP)
    for name in (
        "\u03b2-cohort",
        "clinic 2026",
        "\u043a\u043b\u0438\u043d\u0438\u043a\u0430",
        "Zürich",
    ):
        assert mixed_scripts(name) == ()
        ledger.register(name, **CAP)
    assert ledger.check() == 5


def test_a_ledger_that_holds_such_names_already_loads_and_both_can_be_used(
    ledger, event
):
    ledger.register("clinic", **CAP)
    (cap,) = ledger.show()
    stored = {
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "adjacency": "add-remove",
        "unit": "record",
    }
    with ledger._store.write() as transaction:  # as earlier versions did
        row = next_row(
            transaction.head(),
            kind=Kind.REGISTER,
            dataset="Clinic",
            reservation=None,
            payload=stored,
        )
        transaction.append(row)
    for name in ("clinic", "Clinic"):
        ledger.reserve(name, [event()], adjacency="add-remove", purpose="x")
    assert [account.reserved for account in ledger.show()] == [1, 1]


@pytest.fixture
def server(database):
    psycopg = pytest.importorskip("psycopg")

    def run(*statements):
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    return run


def _shadow(schema):
    return [
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.noisegate_entries (LIKE public.noisegate_entries)",
        f"CREATE TABLE {schema}.noisegate_head AS SELECT 1 AS id, 0 AS rows, repeat('0', 64) AS hash",
    ]


@pytest.mark.parametrize(
    "schema", ["noisegate", "evil"]
)  # the role's own name comes first by default
def test_tables_of_another_schema_in_the_search_path_do_not_stand_in(
    database, server, event, schema
):
    ledger = Ledger(database)
    ledger.register("patients", **CAP)
    ledger.reserve("patients", [event(0.9)], adjacency="add-remove", purpose="first")
    server(
        *_shadow(schema),
        f"ALTER ROLE noisegate IN DATABASE fresh SET search_path = {schema}, public",
    )
    again = Ledger(database)
    assert again.check() == 2
    again.void(again.history("patients")[-1].reservation, reason="x")
    assert ledger.check() == 3


def test_functions_and_operators_of_another_schema_do_not_stand_in(
    database, server, event
):
    ledger = Ledger(database)
    ledger.register("patients", **CAP)
    server(
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no lock was taken'; END $$",
        "ALTER ROLE noisegate IN DATABASE fresh SET search_path = evil, pg_catalog, public",
    )
    assert Ledger(database).reserve(
        "patients", [event()], adjacency="add-remove", purpose="x"
    )


def test_a_ledger_in_a_schema_of_its_own_is_named_in_the_url(database, server, event):
    server("CREATE SCHEMA team")
    named = Ledger(f"{database}&options=-csearch_path%3Dteam,public")
    named.register("patients", **CAP)
    assert named.check() == 1
    with pytest.raises(
        LedgerError,
        match=r"schema 'public' of .*there is one in 'team'.*csearch_path%3Dteam",
    ):
        Ledger(database).show()
    Ledger(database).register("patients", epsilon=2.0, delta=1e-5)
    assert named.show()[0].epsilon == 1.0
    assert Ledger(database).show()[0].epsilon == 2.0


def test_a_schema_that_depends_on_the_role_is_refused():
    pytest.importorskip("psycopg")
    for path in ("%22$user%22", "pg_temp", "%22a%20b%22"):
        with pytest.raises(OptionError, match="is named in full"):
            Ledger(f"postgresql://me@host/db?options=-csearch_path%3D{path}")
