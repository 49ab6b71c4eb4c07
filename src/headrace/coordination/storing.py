"""From a group to its record and back.

What does not survive: protocols that were not chosen, who waits for what, and a rebalance under way.
"""

from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Member, Protocol
from headrace.coordination.records import GroupStored, StoredMember


def stored(group: Group) -> GroupStored:
    """The record of a group whose generation is complete, or that is empty."""
    name = group.protocol_name
    assert name is not None or not group.members
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=name,
        leader_id=group.leader_id,
        state_since_ms=group.state_since_ms,
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata_for(name or ""),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def restored(record: GroupStored) -> Group:
    members = {
        member.member_id: Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=(Protocol(record.protocol_name or "", member.subscription),),
            assignment=member.assignment,
        )
        for member in record.members
    }
    group = Group(
        group_id=record.group_id,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        state_since_ms=record.state_since_ms,
        generation=record.generation,
        protocol_type=record.protocol_type,
        protocol_name=record.protocol_name if members else None,
        # Nobody but us wrote it, but a leader that is no member would have everybody wait for it.
        leader_id=record.leader_id if record.leader_id in members else next(iter(members), None),
        members=members,
    )
    return group.with_known_topics()
