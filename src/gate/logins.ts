// Whether somebody who may use an app is logged in from an address: what opens a TCP or UDP port.
// Invariant: nobody is, unless a live session of such a user was used from that address, now or a moment ago.
export interface Logins {
  isLoggedIn(app: string, address: string): boolean;
}

export const nobodyLoggedIn: Logins = { isLoggedIn: () => false };

/** Who moves to another network keeps the old address for a while: what runs there ends by itself. */
export const formerAddressMs = 5 * 60_000;
