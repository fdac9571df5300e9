//! Sets of events that have a name, declared in one table.

/// A set of events.
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Its events. Those that a kernel lacks are left out, and named.
    pub events: &'static [&'static str],
}

/// The event of packets that leave, of those that `weigh trace packets` follows.
pub const PACKET_LEAVES: &str = "net:net_dev_start_xmit";

/// All sets.
pub const SETS: &[Set] = &[
    Set {
        name: "net",
        help: "packets between the network's layers and devices, and those that are dropped",
        events: &[
            "net:net_dev_queue{id=skb, len=skb->len, dev=skb->dev->name}",
            "net:net_dev_start_xmit{id=skb, len=skb->len, dev=dev->name}",
            "net:net_dev_xmit{id=skb, len=skb_len, rc, dev=dev->name}",
            "net:netif_receive_skb{id=skb, len=skb->len, dev=skb->dev->name}",
            "net:netif_rx{id=skb, len=skb->len, dev=skb->dev->name}",
            "skb:kfree_skb{id=skb, len=skb->len, reason}",
        ],
    },
    Set {
        name: "udp-path",
        help: "the way of a datagram from the socket through the device and back up",
        events: &[
            "sock:sock_send_length{id=sk, sent=ret, flags}",
            "net:net_dev_queue{id=skb, len=skb->len}",
            "net:net_dev_start_xmit{id=skb, len=skb->len}",
            "net:netif_rx{id=skb, len=skb->len}",
            "net:netif_receive_skb{id=skb, len=skb->len}",
            "skb:skb_copy_datagram_iovec{id=skb, len}",
            "sock:sock_recv_length{id=sk, received=ret, flags}",
        ],
    },
    Set {
        name: "block",
        help: "requests to block devices",
        events: &[
            "block:block_rq_insert{id=rq, bytes=rq->__data_len, sector=rq->__sector, flags=rq->cmd_flags}",
            "block:block_rq_issue{id=rq, bytes=rq->__data_len, sector=rq->__sector, flags=rq->cmd_flags}",
            "block:block_rq_complete{id=rq, error, bytes=nr_bytes, sector=rq->__sector, flags=rq->cmd_flags}",
            "block:block_bio_queue{id=bio, bytes=bio->bi_iter.bi_size, sector=bio->bi_iter.bi_sector}",
        ],
    },
    Set {
        name: "sched",
        help: "threads: who runs, who wakes whom, who begins and ends",
        events: &[
            "sched:sched_switch{id=next->pid, from=prev->comm, from_tid=prev->pid, to=next->comm, to_tid=next->pid, prev_state}",
            "sched:sched_wakeup{id=p->pid, woken=p->comm, woken_tid=p->pid}",
            "sched:sched_wakeup_new{id=p->pid, woken=p->comm, woken_tid=p->pid}",
            "sched:sched_process_fork{id=child->pid, parent_tid=parent->pid, child_tid=child->pid}",
            "sched:sched_process_exec{id=p->pid, file=str(bprm->filename)}",
            "sched:sched_process_exit{id=p->pid, code=p->exit_code}",
        ],
    },
    Set {
        name: "syscalls",
        help: "every system call, as it begins and ends; every process of the machine pays for it",
        events: &[
            "raw_syscalls:sys_enter{id=arg1, name, nr=arg1}",
            "raw_syscalls:sys_exit{id=regs->orig_ax, name, nr=regs->orig_ax, ret}",
        ],
    },
];

/// A set by its name.
pub fn named(name: &str) -> Option<&'static Set> {
    SETS.iter().find(|set| set.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    #[test]
    fn every_event_of_every_set_is_one() {
        for event in SETS.iter().flat_map(|set| set.events) {
            Event::parse(event).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
    }
}
