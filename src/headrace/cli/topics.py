"""`headrace topics`: list, create, describe, alter, delete, configs.

Each command gathers plain values from the cluster, then shows them as a table or as JSON: the two cannot
disagree.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from headrace.cli.connection import Connection, connected
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table, size_text
from headrace.cli.pairs import parse_pairs
from headrace.cli.topic_facts import ClusterRefusal, answer_about, describe_topics, topic_configs
from headrace.errors import ApiError
from headrace.ids import TopicName, parse_topic_name

app = typer.Typer(help="Create, look at and change topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="One topic or more.", show_default=False)]
Assignment = Annotated[
    str | None,
    typer.Option(
        metavar="N:N,N:N,...",
        help="Nodes of the replicas of each partition: commas between partitions, colons between replicas, "
        "the preferred leader first.",
    ),
]

BROKER_DEFAULT: Final = -1


@app.command("list")
@connected
def list_topics(
    cluster: Connection,
    all_topics: Annotated[bool, typer.Option("--all", help="Internal topics, too (those beginning with __).")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions and replicas."""
    metadata = cluster.cluster_metadata(cluster.admin())
    topics = [
        {
            "name": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(one.replicas) for one in topic.partitions.values()), default=0),
            "under_replicated": sum(len(one.isrs) < len(one.replicas) for one in topic.partitions.values()),
            "leaderless": sum(one.leader < 0 for one in topic.partitions.values()),
        }
        for name, topic in sorted(metadata.topics.items())
        if all_topics or not name.startswith("__")
    ]
    if as_json:
        print_json(topics)
    elif topics:
        numbers = ("partitions", "replicas", "under-replicated", "leaderless")
        print_table(("topic", *numbers), (list(topic.values()) for topic in topics), right=numbers)
    else:
        note(f"no topics on {cluster.bootstrap}")


@app.command()
@connected
def create(
    cluster: Connection,
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="How many; the broker's default if not said."),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Copies of each partition.")
    ] = None,
    replica_assignment: Assignment = None,
    config: Annotated[list[str], typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting.")] = [],  # noqa: B006
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is no error.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Ask, but change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic

    if replica_assignment is not None and (partitions or replication_factor):
        raise typer.BadParameter("--replica-assignment already says how many partitions and replicas there are")
    how: dict[str, Any] = {"config": parse_pairs(config, option="--config")}
    if replica_assignment is not None:
        how["replica_assignment"] = parse_assignment(replica_assignment)
        how["num_partitions"] = len(how["replica_assignment"])
    else:
        how["num_partitions"] = partitions or BROKER_DEFAULT
        how["replication_factor"] = replication_factor or BROKER_DEFAULT
    wanted = [NewTopic(_legal(name), **how) for name in names]
    futures = cluster.admin().create_topics(wanted, validate_only=validate_only, request_timeout=cluster.timeout_s)

    outcomes = {}
    for name, future in futures.items():
        try:
            answer_about(name, future)
            outcomes[name] = "valid" if validate_only else "created"
        except ClusterRefusal as refusal:
            if not if_not_exists or refusal.code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            outcomes[name] = "exists"
    _show_outcomes(outcomes, as_json=as_json)


@app.command()
@connected
def describe(cluster: Connection, names: Names, as_json: AsJson = False) -> None:
    """Show partitions with leaders, replicas, offsets and sizes, and settings that are not the defaults."""
    admin = cluster.admin()
    topics = describe_topics(cluster, admin, names)
    if as_json:
        print_json(topics)
        return
    numbers = ("partition", "leader", "earliest", "latest", "messages", "size")
    columns = ("partition", "leader", "replicas", "in sync", "earliest", "latest", "messages", "size")
    for topic in topics:
        rows = [
            (
                one["partition"],
                Text("none", style="bold red") if one["leader"] is None else one["leader"],
                one["replicas"],
                _in_sync_text(one["isr"], one["replicas"]),
                one["earliest"],
                one["latest"],
                None if one["latest"] is None else one["latest"] - one["earliest"],
                size_text(one["size_bytes"]),
            )
            for one in topic["partitions"]
        ]
        print_table(columns, rows, title=f"{topic['name']}  id {topic['id']}", right=numbers)
        if topic["configs"]:
            print_table(("setting", "value"), topic["configs"].items())


@app.command()
@connected
def alter(
    cluster: Connection,
    name: Name,
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", min=1, help="The new total.")] = None,
    replica_assignment: Assignment = None,
    set_config: Annotated[
        list[str], typer.Option("--set", "-s", metavar="KEY=VALUE", help="Give a setting a value.")
    ] = [],  # noqa: B006
    unset: Annotated[
        list[str], typer.Option("--unset", "-u", metavar="KEY", help="Let a setting follow the broker again.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Add partitions, and set or unset settings."""
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        ResourceType,
    )

    if replica_assignment is not None and partitions is None:
        raise typer.BadParameter("--replica-assignment is for the partitions that --partitions adds")
    settings = parse_pairs(set_config, option="--set")
    if both := settings.keys() & set(unset):
        raise typer.BadParameter(f"both set and unset: {', '.join(sorted(both))}")
    if partitions is None and not settings and not unset:
        raise typer.BadParameter("nothing to change: say --partitions, --set or --unset")
    admin = cluster.admin()
    if settings or unset:
        changes = [
            *(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()),
            *(ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset),
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        for future in admin.incremental_alter_configs([resource], request_timeout=cluster.timeout_s).values():
            answer_about(name, future)
    if partitions is not None:
        how = {} if replica_assignment is None else {"replica_assignment": parse_assignment(replica_assignment)}
        wanted = NewPartitions(name, partitions, **how)
        for future in admin.create_partitions([wanted], request_timeout=cluster.timeout_s).values():
            answer_about(name, future)
    _show_outcomes({name: "altered"}, as_json=as_json)


@app.command()
@connected
def delete(
    cluster: Connection,
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing topic is no error.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete topics and all that they hold."""
    from confluent_kafka import KafkaError

    outcomes = {}
    for name, future in cluster.admin().delete_topics(names, request_timeout=cluster.timeout_s).items():
        try:
            answer_about(name, future)
            outcomes[name] = "deleted"
        except ClusterRefusal as refusal:
            if not if_exists or refusal.code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            outcomes[name] = "missing"
    _show_outcomes(outcomes, as_json=as_json)


@app.command()
@connected
def configs(
    cluster: Connection,
    name: Name,
    overrides: Annotated[bool, typer.Option("--overrides", help="Only what differs from the defaults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting of a topic, where its value comes from, and which ones the topic itself sets (*)."""
    settings = topic_configs(cluster, cluster.admin(), [name])[name]
    if overrides:
        settings = [one for one in settings if one["source"] != "default"]
    if as_json:
        print_json(settings)
        return
    rows = []
    for one in settings:
        own = one["source"] == "topic"
        value = "(hidden)" if one["sensitive"] else one["value"]
        cells = ("*" if own else "", one["name"], value, one["source"])
        style = "bold" if own else "dim" if one["source"] == "default" else ""
        rows.append([Text(str("" if cell is None else cell), style=style) for cell in cells])
    print_table(("", "setting", "value", "from"), rows)


def parse_assignment(text: str) -> list[list[int]]:
    """`1:2,2:3` -> [[1, 2], [2, 3]], as in Kafka's own tool."""
    try:
        assignment = [[int(node) for node in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a replica assignment such as 1:2,2:3") from None
    if any(len(set(replicas)) != len(replicas) for replicas in assignment):
        raise typer.BadParameter(f"{text!r} puts two replicas of a partition on one node")
    return assignment


def _legal(name: str) -> TopicName:
    try:
        return parse_topic_name(name)
    except ApiError as error:
        raise CommandError(str(error)) from error


def _show_outcomes(outcomes: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "outcome": outcome} for name, outcome in outcomes.items()])
    else:
        for name, outcome in outcomes.items():
            print(f"{name}: {outcome}")


def _in_sync_text(isr: Sequence[int], replicas: Sequence[int]) -> Text:
    return Text(",".join(map(str, isr)), style="" if len(isr) == len(replicas) else "yellow")
