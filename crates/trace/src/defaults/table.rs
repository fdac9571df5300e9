//! What perf shows of tracepoints whose records cannot be told from their types: by the arguments of each.
//!
//! `comm` is the thread's own in every event, so names of other threads are called otherwise. What a kernel does not have
//! is left out.

const SWITCH: &str = "prev_comm=prev->comm, prev_pid=prev->pid, prev_prio=prev->prio, prev_state, \
                      next_comm=next->comm, next_pid=next->pid, next_prio=next->prio";
const WOKEN: &str = "woken=p->comm, pid=p->pid, prio=p->prio, target_cpu=p->thread_info.cpu";
const DELAY: &str = "pid=tsk->pid, delay";
const PACKET: &str = "skbaddr=skb, len=skb->len, name=skb->dev->name";
const SOCKET: &str = "skaddr=sk, family=sk->__sk_common.skc_family, state=sk->__sk_common.skc_state, \
                      sport=sk->__sk_common.skc_num";
const LENGTH: &str = "sk, family=sk->__sk_common.skc_family, protocol=sk->sk_protocol, ret, flags";
const REQUEST: &str = "dev=rq->q->disk->disk_name, sector=rq->__sector, bytes=rq->__data_len, \
                       cmd_flags=rq->cmd_flags";
const BIO: &str = "sector=bio->bi_iter.bi_sector, bytes=bio->bi_iter.bi_size, opf=bio->bi_opf";
const FAULT: &str = "address, ip=regs->ip, pc=regs->pc, error_code";
const PAGE: &str = "i_ino=folio->mapping->host->i_ino, index=folio->index";

/// Of each tracepoint.
pub(super) const FIELDS: &[(&str, &str)] = &[
    ("block_bio_backmerge", BIO),
    ("block_bio_complete", BIO),
    ("block_bio_frontmerge", BIO),
    ("block_bio_queue", BIO),
    (
        "block_rq_complete",
        "dev=rq->q->disk->disk_name, sector=rq->__sector, nr_bytes, error, cmd_flags=rq->cmd_flags",
    ),
    ("block_rq_insert", REQUEST),
    ("block_rq_issue", REQUEST),
    ("block_rq_merge", REQUEST),
    ("block_rq_requeue", REQUEST),
    ("consume_skb", "skbaddr=skb, location"),
    (
        "inet_sock_set_state",
        "skaddr=sk, family=sk->__sk_common.skc_family, protocol=sk->sk_protocol, sport=sk->__sk_common.skc_num, oldstate, newstate",
    ),
    ("irq_handler_entry", "irq, name=str(action->name)"),
    ("irq_handler_exit", "irq, ret"),
    ("kfree_skb", "skbaddr=skb, protocol=skb->protocol, location, reason"),
    ("mm_filemap_add_to_page_cache", PAGE),
    ("mm_filemap_delete_from_page_cache", PAGE),
    ("net_dev_queue", PACKET),
    (
        "net_dev_start_xmit",
        "name=dev->name, skbaddr=skb, len=skb->len, data_len=skb->data_len, protocol=skb->protocol",
    ),
    ("net_dev_xmit", "skbaddr=skb, len=skb_len, rc, name=dev->name"),
    ("netif_receive_skb", PACKET),
    ("netif_rx", PACKET),
    ("page_fault_kernel", FAULT),
    ("page_fault_user", FAULT),
    (
        "sched_migrate_task",
        "migrated=p->comm, pid=p->pid, prio=p->prio, orig_cpu=p->thread_info.cpu, dest_cpu",
    ),
    ("sched_process_exec", "filename=str(bprm->filename), pid=p->pid, old_pid"),
    ("sched_process_exit", "pid=p->pid, prio=p->prio, exit_code=p->exit_code, group_dead"),
    (
        "sched_process_fork",
        "parent_comm=parent->comm, parent_pid=parent->pid, child_comm=child->comm, child_pid=child->pid",
    ),
    ("sched_process_wait", "pid=pid->numbers[0].nr"),
    ("sched_process_free", "freed=p->comm, pid=p->pid, prio=p->prio"),
    ("sched_stat_blocked", DELAY),
    ("sched_stat_iowait", DELAY),
    ("sched_stat_runtime", "pid=tsk->pid, runtime"),
    ("sched_stat_sleep", DELAY),
    ("sched_stat_wait", DELAY),
    ("sched_switch", SWITCH),
    ("sched_wait_task", "waited=p->comm, pid=p->pid, prio=p->prio"),
    ("sched_wakeup", WOKEN),
    ("sched_wakeup_new", WOKEN),
    ("sched_waking", WOKEN),
    ("signal_deliver", "sig, sa_flags=ka->sa.sa_flags"),
    ("signal_generate", "sig, target=task->comm, pid=task->pid, group, result"),
    ("skb_copy_datagram_iovec", "skbaddr=skb, len"),
    ("sock_recv_length", LENGTH),
    ("sock_send_length", LENGTH),
    ("softirq_entry", "vec=vec_nr"),
    ("softirq_exit", "vec=vec_nr"),
    ("softirq_raise", "vec=vec_nr"),
    ("sys_enter", "id, name"),
    ("sys_exit", "name, ret"),
    ("task_newtask", "pid=task->pid, clone_flags, oom_score_adj=task->signal->oom_score_adj"),
    ("task_rename", "pid=task->pid, oldcomm=task->comm, newcomm=str(arg1)"),
    ("tcp_destroy_sock", SOCKET),
    ("tcp_probe", SOCKET),
    ("tcp_rcv_space_adjust", SOCKET),
    ("tcp_retransmit_skb", SOCKET),
    ("workqueue_execute_end", "work, function"),
    ("workqueue_execute_start", "work, function=work->func"),
];
