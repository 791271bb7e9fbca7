"""Each alert has a kind of notice."""

from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

import bot
from bot.domain.notice import SEVERITIES, NoticeKind
from bot.runtime.notices.kinds import KINDS
from bot.runtime.notices.wording import texts

CATALOGUE: Final = Path(bot.__file__).parent / "cli" / "telling" / "vi.yaml"


def test_every_alert_has_a_kind_and_no_kind_is_of_an_alert_that_is_gone() -> None:
    alerts = YAML(typ="safe").load(CATALOGUE.read_text("utf-8"))["alerts"]

    assert set(KINDS) == set(alerts)


def test_every_kind_has_a_severity_and_a_title_in_both_languages() -> None:
    assert set(SEVERITIES) == set(NoticeKind)
    for language in ("en", "vi"):
        assert set(texts(language)["titles"]) == set(NoticeKind)


def test_both_languages_say_the_same_things() -> None:
    english, vietnamese = texts("en"), texts("vi")

    for part in ("titles", "money", "do", "said"):
        assert set(english[part]) == set(vietnamese[part]), part
