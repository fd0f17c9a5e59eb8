/** The redirect path that the operator registers at the issuer. */
export const RETURN_PATH = '/signed-in';
