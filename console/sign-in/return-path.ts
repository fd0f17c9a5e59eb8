/** Where the issuer's page sends the user back to: the address that the operator tells the issuer. */
export const RETURN_PATH = '/signed-in';
