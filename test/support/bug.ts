// Loaded into a process of Turnpike before its program: something goes wrong there that nobody catches.
// Invariant: only in the role that TURNPIKE_TEST_BUG names ("KIND ROLE"), once, after it has come up.
const [kind, role] = (process.env['TURNPIKE_TEST_BUG'] ?? '').split(' ');

if (role !== undefined && process.argv[2] === role) {
  setTimeout(() => {
    const error = new Error('nobody catches this');
    if (kind === 'exception') throw error;
    void Promise.reject(error);
  }, 1000);
}
