// SPDX-License-Identifier: Apache-2.0
// Number of the active mutant, read once at time 0 (probe.cpp): from the plusarg +nf_mutant=N, or
// from the variable NF_MUTANT. nf_note records that a mutant would have made a difference.
package nf_mutation_pkg;
  import "DPI-C" function int nf_mutation_number();
  import "DPI-C" function bit nf_mutation_note(input int number, input bit differs);
  function automatic int nf_chosen();
    int number;
    if ($value$plusargs("nf_mutant=%d", number) == 0) number = nf_mutation_number();
    return number;
  endfunction
  int nf_mutant = nf_chosen();
  function automatic logic nf_note(input int number, input logic differs);
    return nf_mutation_note(number, differs);
  endfunction
endpackage
