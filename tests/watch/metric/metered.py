"""Reading metrics as Prometheus does."""

from prometheus_client.parser import text_string_to_metric_families


def parsed(text):
    """The value of each series, by its name and its labels; fails if the text is not valid."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = sample.name, frozenset(sample.labels.items())
            assert place not in found, f"{place} is there twice"
            found[place] = sample.value
    return found


class Scrape:
    """What one scrape has found."""

    def __init__(self, text):
        self.text = text
        self.series = parsed(text)

    def __call__(self, name, **labels):
        return self.series.get((f"windlass_{name}", frozenset(labels.items())))

    def kinds(self, name):
        labels = [dict(labels) for found, labels in self.series if found == f"windlass_{name}"]
        return {each["kind"] for each in labels if "kind" in each}

    @property
    def names(self):
        """The names of the metrics, as the table has them."""
        return {family_name(name) for name, _ in self.series}


def family_name(series):
    for end in ("_bucket", "_count", "_sum"):
        if series.endswith(f"_seconds{end}"):
            return series.removesuffix(end)
    return series
