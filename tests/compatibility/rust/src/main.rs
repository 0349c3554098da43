//! The scenarios through rdkafka: `scenarios SCENARIO BOOTSTRAP NAME [WORD]`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{DeliveryResult, Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

type Failure = Box<dyn std::error::Error>;

const COUNT: usize = 100;
const IN_GROUP: usize = 400;
const PARTITIONS: i32 = 4;
const FIRST_MS: i64 = 1_700_000_000_000;
const WAIT: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(100);

fn check<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {wanted:?}").into())
}

/// One record: key, value, header, time.
#[derive(Debug, PartialEq)]
struct Row(Option<String>, Option<String>, String, i64);

fn row(n: usize) -> Row {
    Row(
        (n % 10 != 0).then(|| format!("key {n}")),
        (n % 10 != 5).then(|| format!("value {n} ").repeat(20)),
        n.to_string(),
        FIRST_MS + n as i64,
    )
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|each| String::from_utf8_lossy(each).into_owned())
}

/// Counts what was delivered and what was not.
#[derive(Clone, Default)]
struct Deliveries(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let counter = if result.is_ok() { &self.0 } else { &self.1 };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

struct Writer {
    producer: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
    sent: usize,
}

impl Writer {
    fn new(bootstrap: &str, config: &[(&str, &str)]) -> Result<Writer, Failure> {
        let deliveries = Deliveries::default();
        let mut keys = ClientConfig::new();
        keys.set("bootstrap.servers", bootstrap);
        for (key, value) in config {
            keys.set(*key, *value);
        }
        let producer = keys.create_with_context(deliveries.clone())?;
        Ok(Writer { producer, deliveries, sent: 0 })
    }

    fn send(&mut self, record: BaseRecord<'_, str, str>) -> Result<(), Failure> {
        self.producer.send(record).map_err(|(error, _)| error)?;
        self.sent += 1;
        Ok(())
    }

    /// Waits until all is delivered.
    fn flush(&self) -> Result<(), Failure> {
        self.producer.flush(WAIT)?;
        check("failed deliveries", self.deliveries.1.load(Ordering::SeqCst), 0)?;
        check("deliveries", self.deliveries.0.load(Ordering::SeqCst), self.sent)
    }

    fn write(&mut self, topic: &str, partition: i32, value: &str) -> Result<(), Failure> {
        self.send(BaseRecord::to(topic).partition(partition).payload(value))?;
        self.flush()
    }
}

fn read(
    bootstrap: &str,
    topic: &str,
    count: usize,
    isolation: &str,
) -> Result<Vec<OwnedMessage>, Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation)
        .create()?;
    let mut whole = TopicPartitionList::new();
    whole.add_partition_offset(topic, 0, Offset::Beginning)?;
    consumer.assign(&whole)?;
    let limit = Instant::now() + WAIT;
    let mut found = Vec::new();
    while found.len() < count && Instant::now() < limit {
        if let Some(message) = consumer.poll(TURN) {
            found.push(message?.detach());
        }
    }
    Ok(found)
}

fn values(messages: &[OwnedMessage]) -> Vec<String> {
    messages.iter().filter_map(|each| text(each.payload())).collect()
}

fn records(bootstrap: &str, topic: &str, codec: &str) -> Result<(), Failure> {
    let config = [("compression.type", codec), ("linger.ms", "100")];
    let mut writer = Writer::new(bootstrap, &config)?;
    for n in 0..COUNT {
        let Row(key, value, header, time_ms) = row(n);
        let header = Header { key: "n", value: Some(&header) };
        let mut record = BaseRecord::to(topic)
            .partition(0)
            .timestamp(time_ms)
            .headers(OwnedHeaders::new().insert(header));
        if let Some(key) = &key {
            record = record.key(key.as_str());
        }
        if let Some(value) = &value {
            record = record.payload(value.as_str());
        }
        writer.send(record)?;
    }
    writer.flush()?;
    let found: Vec<Row> = read(bootstrap, topic, COUNT, "read_committed")?
        .iter()
        .map(|message| {
            let header = message.headers().and_then(|headers| headers.get(0).value);
            Row(
                text(message.key()),
                text(message.payload()),
                text(header).unwrap_or_default(),
                message.timestamp().to_millis().unwrap_or_default(),
            )
        })
        .collect();
    check("records", found, (0..COUNT).map(row).collect())
}

fn member(bootstrap: &str, topic: &str, protocol: &str) -> Result<BaseConsumer, Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", topic)
        .set("group.protocol", protocol)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[topic])?;
    Ok(consumer)
}

fn held(consumer: &BaseConsumer) -> i32 {
    consumer.assignment().map_or(0, |assignment| assignment.count() as i32)
}

/// Lets members read, in turn, until something is so.
fn until(
    what: &str,
    members: &[&BaseConsumer],
    seen: &mut BTreeSet<String>,
    done: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<(), Failure> {
    let limit = Instant::now() + WAIT;
    while !done(seen) {
        if Instant::now() > limit {
            return Err(format!("{what}: not within {} s", WAIT.as_secs()).into());
        }
        for member in members {
            while let Some(message) = member.poll(TURN) {
                seen.extend(text(message?.payload()));
            }
        }
    }
    Ok(())
}

fn group(bootstrap: &str, topic: &str, protocol: &str) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let first = member(bootstrap, topic, protocol)?;
    until("all partitions, all records", &[&first], &mut seen, |seen| {
        held(&first) == PARTITIONS && seen.len() == IN_GROUP
    })?;
    first.commit_consumer_state(CommitMode::Sync)?;
    let second = member(bootstrap, topic, protocol)?;
    until("two partitions each", &[&first, &second], &mut seen, |_| {
        held(&first) == 2 && held(&second) == 2
    })?;
    seen.clear();
    let mut writer = Writer::new(bootstrap, &[])?;
    let more: BTreeSet<String> = (0..PARTITIONS).map(|n| format!("more {n}")).collect();
    for (n, value) in more.iter().enumerate() {
        writer.write(topic, n as i32, value)?;
    }
    until("more records", &[&first, &second], &mut seen, |seen| seen.len() == more.len())?;
    check("more records", &seen, &more)?;
    first.commit_consumer_state(CommitMode::Sync)?;
    second.commit_consumer_state(CommitMode::Sync)?;
    drop(second);
    until("all partitions again", &[&first], &mut seen, |_| held(&first) == PARTITIONS)?;
    drop(first);
    writer.write(topic, 0, "last")?;
    seen.clear();
    let third = member(bootstrap, topic, protocol)?;
    until("the last record", &[&third], &mut seen, |seen| !seen.is_empty())?;
    check("after the commit", seen, BTreeSet::from(["last".to_owned()]))?;
    third.commit_consumer_state(CommitMode::Sync)?;
    Ok(())
}

fn transactions(bootstrap: &str, topic: &str, _: &str) -> Result<(), Failure> {
    let mut writer = Writer::new(bootstrap, &[("transactional.id", topic)])?;
    writer.producer.init_transactions(WAIT)?;
    for word in ["aborted", "committed"] {
        writer.producer.begin_transaction()?;
        for n in 0..5 {
            writer.write(topic, 0, &format!("{word} {n}"))?;
        }
        match word {
            "aborted" => writer.producer.abort_transaction(WAIT)?,
            _ => writer.producer.commit_transaction(WAIT)?,
        }
    }
    let found = values(&read(bootstrap, topic, 5, "read_committed")?);
    check("committed", found, (0..5).map(|n| format!("committed {n}")).collect())?;
    check("uncommitted", read(bootstrap, topic, 10, "read_uncommitted")?.len(), 10)
}

fn admin(bootstrap: &str, topic: &str, _: &str) -> Result<(), Failure> {
    let client: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
    let options = AdminOptions::new().operation_timeout(Some(WAIT));
    let gone = format!("{topic}-gone");
    let new = [topic, &gone]
        .map(|name| NewTopic::new(name, 3, TopicReplication::Fixed(1)).set("cleanup.policy", "compact"));
    for answer in block_on(client.create_topics(&new, &options))? {
        answer.map_err(|(name, error)| format!("{name}: {error}"))?;
    }
    let metadata = client.inner().fetch_metadata(Some(topic), WAIT)?;
    check("partitions", metadata.topics()[0].partitions().len(), 3)?;
    let value = |name: &str| -> Result<Option<String>, Failure> {
        let asked = [ResourceSpecifier::Topic(topic)];
        let answers = block_on(client.describe_configs(&asked, &options))?;
        let described = answers.into_iter().next().ok_or("no answer")??;
        Ok(described.get(name).and_then(|entry| entry.value.clone()))
    };
    check("cleanup.policy", value("cleanup.policy")?.as_deref(), Some("compact"))?;
    // rdkafka knows no incremental change: these are all of the topic's configs.
    let change = AlterConfig::new(ResourceSpecifier::Topic(topic))
        .set("cleanup.policy", "compact")
        .set("retention.ms", "123456");
    for answer in block_on(client.alter_configs([&change], &options))? {
        answer.map_err(|(_, error)| error.to_string())?;
    }
    check("retention.ms", value("retention.ms")?.as_deref(), Some("123456"))?;
    for answer in block_on(client.delete_topics(&[gone.as_str()], &options))? {
        answer.map_err(|(name, error)| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = words.get(3).map_or("", String::as_str);
    let run = match words[0].as_str() {
        "records" => records,
        "group" => group,
        "transactions" => transactions,
        "admin" => admin,
        other => panic!("no scenario {other}"),
    };
    if let Err(error) = run(&words[1], &words[2], word) {
        println!("{}", error.to_string().replace('\n', " "));
        exit(1);
    }
}
