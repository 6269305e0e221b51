use std::collections::VecDeque;
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Waiting,
    Running,
    Done,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Done => "done",
        };
        write!(f, "{name}")
    }
}

pub struct Job {
    pub id: u64,
    pub state: State,
}

#[derive(Default)]
pub struct Queue {
    jobs: VecDeque<Job>,
    next_id: u64,
}

impl Queue {
    pub fn push(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.jobs.push_back(Job { id, state: State::Waiting });
        id
    }

    pub fn take(&mut self) -> Option<u64> {
        let job = self.jobs.iter_mut().find(|job| job.state == State::Waiting)?;
        job.state = State::Running;
        Some(job.id)
    }

    pub fn finish(&mut self, id: u64) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) {
            job.state = State::Done;
        }
    }

    pub fn len(&self) -> usize {
        self.jobs.len()
    }
}
